"""First come, first served, over Batsim's protocol: what a decision process written by somebody else looks like."""
import json
import sys

import zmq


def intervals(numbers):
    return " ".join(str(n) for n in sorted(numbers))


def main():
    socket = zmq.Context().socket(zmq.REP)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    print(port, flush=True)
    free, queue, where, over = set(), [], {}, False
    while not over:
        message = json.loads(socket.recv())
        for event in message["events"]:
            data = event["data"]
            if event["type"] == "SIMULATION_BEGINS":
                free = {r["id"] for r in data["compute_resources"]}
            elif event["type"] == "JOB_SUBMITTED":
                assert data["job"]["id"] == data["job_id"]
                queue.append((data["job_id"], data["job"]["res"]))
            elif event["type"] == "JOB_COMPLETED":
                free |= where.pop(data["job_id"])
            elif event["type"] == "SIMULATION_ENDS":
                over = True
        events = []
        while queue and queue[0][1] <= len(free):
            job, n = queue.pop(0)
            where[job] = set(sorted(free)[:n])
            free -= where[job]
            events.append({"timestamp": message["now"], "type": "EXECUTE_JOB",
                           "data": {"job_id": job, "alloc": intervals(where[job])}})
        socket.send_string(json.dumps({"now": message["now"], "events": events}))
    socket.close(linger=1000)


sys.exit(main())
