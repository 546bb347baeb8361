"""Unmodified public clients of libfranka's protocol against our hand simulator, in processes of their own."""
