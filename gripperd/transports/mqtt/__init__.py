"""MQTT 5: contract section 5. See publisher.py for the rules."""

from gripperd.transports.mqtt.publisher import OUTCOMES_KEPT, MqttPublisher

__all__ = ["OUTCOMES_KEPT", "MqttPublisher"]
