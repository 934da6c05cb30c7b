#!/usr/bin/python3
"""Measures a workload in PyTorch's DistributedDataParallel over gloo and prints a line of JSON.

    ddp.py WORKLOAD PROCESSES SECONDS [read]

WORKLOAD is what measure.py takes; each process trains batches of that size. A process has one thread, and its batches
are ready in memory. With "read" they are in a file of plain numbers, which is mapped, and each step copies its batch
out of it: the least that reading can cost. This is for classifiers and ctr. gloo uses the loopback interface. Gradients are views of the buckets that are reduced
(gradient_as_bucket_view), and buffers are not broadcast, because these models have none that change.

All times are of process 0, where every step waits for all processes. Processor time and context switches are summed
over all processes.
"""
import json
import os
import resource
import socket
import sys
import tempfile
import time

import numpy
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import measure

WINDOW = 0.200  # seconds that a window lasts at least, as in bench/internal/rounds


class Mapped:
    """Batches in a mapped file without a name."""

    def __init__(self, batches):
        together = torch.stack(batches)
        with tempfile.TemporaryFile() as file:
            self.map = numpy.memmap(file, together.numpy().dtype, "w+", shape=tuple(together.shape))
        self.map[:] = together.numpy()

    def __getitem__(self, i):
        return torch.from_numpy(numpy.array(self.map[i]))


def used():
    """Processor time in seconds and context switches of this process."""
    u = resource.getrusage(resource.RUSAGE_SELF)
    return [u.ru_utime + u.ru_stime, float(u.ru_nvcsw + u.ru_nivcsw)]


def agree(value):
    """The value of process 0."""
    t = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(t, 0)
    return t.item()


def total(values):
    """The sums over all processes."""
    t = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(t)
    return t.tolist()


def train(rank, processes, workload, seconds, read, port):
    torch.set_num_threads(1)
    torch.manual_seed(1 + rank)
    store = dist.TCPStore("127.0.0.1", port, processes, rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=processes)

    def wrap(net):
        return DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False)

    if read:
        measure.stored = Mapped
    model, _, optimizer = workload.partition("/")
    step = measure.training(model, optimizer, 1, wrap)
    i, start, warm = 0, time.perf_counter(), True
    while warm:  # all processes take the same number of steps
        for _ in range(measure.FEWEST):
            step(i)
            i += 1
        warm = agree(float(time.perf_counter() - start < seconds / 4)) > 0
    # The warm-up contains what is done once, so the length of windows follows from the time of some more steps.
    begin = time.perf_counter()
    for _ in range(measure.FEWEST):
        step(i)
        i += 1
    each = (time.perf_counter() - begin) / measure.FEWEST
    repetitions = 1 + int(agree(WINDOW / each))
    count = max(measure.FEWEST, int(agree(seconds / (repetitions * each))))
    dist.barrier()
    before, windows = used(), []
    for _ in range(count):
        begin = time.perf_counter()
        for _ in range(repetitions):
            step(i)
            i += 1
        windows.append((time.perf_counter() - begin) * 1e6 / repetitions)
    after = used()
    steps = count * repetitions
    cpu, switches, peak = total([b - a for a, b in zip(before, after)] + [float(measure.peak_memory())])
    if rank == 0:
        windows.sort()
        print(json.dumps({
            "median_us": (windows[(count - 1) // 2] + windows[count // 2]) / 2,
            "fastest_us": windows[0],
            "windows": count,
            "peak_bytes": int(peak),
            "steps": steps,
            "cpu_us": 1e6 * cpu / steps,
            "switches": switches / steps,
        }), flush=True)
    dist.barrier()
    os._exit(0)  # gloo may hang when a process group is destroyed while its peer ends


def main():
    read = sys.argv[4:] == ["read"]
    if len(sys.argv) != 4 and not read:
        raise SystemExit("usage: ddp.py WORKLOAD PROCESSES SECONDS [read]")
    workload, processes, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with socket.socket() as s:  # a free port, which process 0 listens on
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(train, args=(processes, workload, seconds, read, port), nprocs=processes)


if __name__ == "__main__":
    main()
