"""TensorBoard event files, written byte by byte: TFRecord framing and the few protobuf fields that a scalar needs."""

import os
import struct


def crc32c(data):
    """CRC-32C bit by bit, from its polynomial: shares nothing with the reader's table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def length(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def simple(tag, value):
    """Summary.Value as torch.utils.tensorboard writes it."""
    return length(1, tag.encode()) + varint(2 << 3 | 5) + struct.pack("<f", value)


def tensor(tag, value, packed=False):
    """Summary.Value as TensorFlow 2 writes it: a tensor of one float, in tensor_content or in float_val."""
    body = varint(1 << 3) + varint(1) + length(2, b"")
    body += length(5 if packed else 4, struct.pack("<f", value))
    return length(1, tag.encode()) + length(8, body) + length(9, length(1, length(1, b"scalars")))


class EventFile:
    def __init__(self, directory, wall, number=0):
        os.makedirs(directory, exist_ok=True)
        self.file = open(os.path.join(directory, "events.out.tfevents.%010d.host.%d" % (int(wall), number)), "wb")
        self.event(wall, 0, length(3, b"brain.Event:2"))

    def event(self, wall, step, what):
        data = varint(1 << 3 | 1) + struct.pack("<d", wall) + varint(2 << 3) + varint(step) + what
        header = struct.pack("<Q", len(data))
        self.file.write(header + struct.pack("<I", masked(header)) + data + struct.pack("<I", masked(data)))

    def add_scalar(self, tag, value, step, wall, form=simple):
        self.event(wall, step, length(5, length(1, form(tag, value))))

    def close(self):
        self.file.close()
