"""A simulator that knows only one story: it says the requests of a transcript and prints what it is answered."""
import sys

import zmq

socket = zmq.Context().socket(zmq.REQ)
socket.connect(sys.argv[1])
for request in open(sys.argv[2]).read().splitlines()[::2]:
    socket.send_string(request)
    print(socket.recv_string(), flush=True)
socket.close(linger=1000)
