#!/usr/bin/python3
"""Measures one workload in PyTorch and prints a line of JSON, as bench/cmd/measure does for EDL.

    measure.py WORKLOAD THREADS SECONDS

WORKLOAD is MODEL/OPTIMIZER or sgemm:MxKxN, as package bench names them. A step clears the gradients, computes the
loss of the next of 16 ready-made batches and its gradients, and updates. Settings are those that were fastest for
PyTorch 1.13 on a CPU; the caller adds those that are environment variables (see bench/cmd/peers).
"""
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCHES = 16
WINDOW = 0.020  # seconds that a window lasts at least
FEWEST = 3  # repetitions to warm up, and windows, at least


def peak_memory():
    """Most bytes that this process has had resident."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    raise RuntimeError("no VmHWM in /proc/self/status")


def linear(inputs, outputs):
    layer = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return layer


def stored(batches):
    """Where ready-made batches are: in memory. ddp.py replaces this function."""
    return batches


def classify(net, images, classes):
    """Ready-made batches of images, and what computes the loss of a network on the i-th."""
    labels = stored([torch.randint(0, classes, (x.shape[0],)) for x in images])
    images = stored(images)
    return net, lambda net, i: F.cross_entropy(net(images[i]), labels[i])


def fit_a_line(threads, optimizer, arguments):
    net = nn.Linear(13, 1)
    xs = [torch.rand(20, 13) for _ in range(BATCHES)]
    ys = [torch.rand(20, 1) for _ in range(BATCHES)]
    return net, lambda net, i: F.mse_loss(net(xs[i]), ys[i])


def fully_connected(threads, optimizer, arguments):
    batch, sizes = arguments.split(":")
    widths = [int(w) for w in sizes.split("-")]
    layers = []
    for i, width in enumerate(widths[1:]):
        layers += [linear(widths[i], width), nn.ReLU()]
    images = [torch.rand(int(batch), widths[0]) for _ in range(BATCHES)]
    return classify(nn.Sequential(*layers[:-1]), images, widths[-1])


def mlp(threads, optimizer, arguments):
    return fully_connected(threads, optimizer, "64:784-200-200-10")


def conv(threads, optimizer, arguments):
    net = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Linear(800, 10))
    last = torch.channels_last
    images = [torch.rand(64, 1, 28, 28).to(memory_format=last) for _ in range(BATCHES)]
    return classify(net.to(memory_format=last), images, 10)


def convolution(inputs, filters, size, stride=1, groups=1, act=True):
    """A convolution without bias, batch normalization and, with act, relu."""
    layers = [nn.Conv2d(inputs, filters, size, stride, (size - 1) // 2, groups=groups, bias=False), nn.BatchNorm2d(filters)]
    return nn.Sequential(*layers, nn.ReLU()) if act else nn.Sequential(*layers)


def pictures(net, batch):
    last = torch.channels_last
    images = [torch.rand(batch, 3, 32, 32).to(memory_format=last) for _ in range(BATCHES)]
    return classify(net.to(memory_format=last), images, 10)


def vgg16(threads, optimizer, arguments):
    layers, inputs = [], 3
    for i, convolutions in enumerate((2, 2, 3, 3, 3)):
        for _ in range(convolutions):
            layers.append(convolution(inputs, 64 << min(i, 3), 3))
            inputs = 64 << min(i, 3)
        layers.append(nn.MaxPool2d(2, 2))
    layers.append(nn.Flatten())
    for _ in range(2):
        layers += [nn.Dropout(0.5), nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU()]
    return pictures(nn.Sequential(*layers, nn.Linear(512, 10)), int(arguments or 32))


def resnet32(threads, optimizer, arguments):
    class Block(nn.Module):
        def __init__(self, inputs, filters, stride):
            super().__init__()
            self.first = convolution(inputs, filters, 3, stride)
            self.second = convolution(filters, filters, 3, act=False)
            self.direct = convolution(inputs, filters, 1, stride, act=False) if stride > 1 else nn.Identity()

        def forward(self, x):
            return F.relu(self.second(self.first(x)) + self.direct(x))

    layers, inputs = [convolution(3, 16, 3)], 16
    for group in range(3):
        for block in range(5):
            layers.append(Block(inputs, 16 << group, 2 if group > 0 and block == 0 else 1))
            inputs = 16 << group
    return pictures(nn.Sequential(*layers, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10)), int(arguments or 64))


def mobilenet(threads, optimizer, arguments):
    layers, inputs = [convolution(3, 32, 3)], 32
    for filters, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)):
        layers += [convolution(inputs, inputs, 3, stride, inputs), convolution(inputs, filters, 1)]
        inputs = filters
    return pictures(nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(512, 10)), int(arguments or 64))


def ctr(threads, optimizer, arguments):
    batch, slots, width, vocabulary = 512, 26, 10, 1000001

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.vectors = nn.Embedding(vocabulary, width, sparse=True)
            self.weights = nn.Embedding(vocabulary, 1, sparse=True)
            nn.init.uniform_(self.vectors.weight, -1e-3, 1e-3)
            nn.init.zeros_(self.weights.weight)
            self.linear = nn.Linear(13, 1)
            self.deep = nn.Sequential(
                nn.Linear(slots * width + 13, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(),
                nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1))

        def forward(self, ids, dense):
            vectors = self.vectors(ids)
            total = vectors.sum(1)
            pairs = 0.5 * (total * total - (vectors * vectors).sum(1)).sum(1, keepdim=True)
            deep = self.deep(torch.cat([vectors.flatten(1), dense], 1))
            return self.weights(ids).sum(1) + self.linear(dense) + pairs + deep

    net = Net()
    ids = stored([(torch.rand(batch, slots).pow(3) * (vocabulary - 1)).long() for _ in range(BATCHES)])
    dense = stored([torch.rand(batch, 13) for _ in range(BATCHES)])
    labels = stored([torch.randint(0, 2, (batch, 1)).float() for _ in range(BATCHES)])
    return net, lambda net, i: F.binary_cross_entropy_with_logits(net(ids[i], dense[i]), labels[i])


def word2vec(threads, optimizer, arguments):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            # Sparse gradients are the faster choice at two threads, dense ones at one.
            self.table = nn.Embedding(2073, 32, sparse=threads > 1)
            self.hidden = nn.Linear(4 * 32, 256)
            self.out = nn.Linear(256, 2073)

        def forward(self, words):
            return self.out(torch.sigmoid(self.hidden(self.table(words).flatten(1))))

    words = [torch.randint(0, 2073, (100, 4)) for _ in range(BATCHES)]
    return classify(Net(), words, 2073)


def ragged(length):
    """Ready-made batches of sentences whose lengths are drawn, packed: the words of all sentences, the longest first, step by step."""
    lengths = sorted((length() for _ in range(128)), reverse=True)
    steps = torch.tensor([sum(n > i for n in lengths) for i in range(lengths[0])])
    return [nn.utils.rnn.PackedSequence(torch.randint(0, 5147, (sum(lengths),)), steps) for _ in range(BATCHES)]


def recurrent(layer, batches):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5147, 128)
            self.layer = layer
            self.out = nn.Linear(512, 2)

        def forward(self, words):
            if isinstance(words, torch.Tensor):
                return self.out(self.layer(self.table(words))[0].max(0)[0])
            states = self.layer(words._replace(data=self.table(words.data)))[0]
            return self.out(nn.utils.rnn.pad_packed_sequence(states, padding_value=-2.0)[0].max(0)[0])

    net = Net()
    labels = [torch.randint(0, 2, (128,)) for _ in range(BATCHES)]
    return net, lambda net, i: F.cross_entropy(net(batches[i]), labels[i])


def drawn():
    return int(torch.randint(5, 101, ()))


def lstm(threads, optimizer, arguments):
    return recurrent(nn.LSTM(128, 512), [torch.randint(0, 5147, (100, 128)) for _ in range(BATCHES)])


def lstm_ragged(threads, optimizer, arguments):
    return recurrent(nn.LSTM(128, 512), ragged(drawn))


def gru_ragged(threads, optimizer, arguments):
    return recurrent(nn.GRU(128, 512), ragged(drawn))


def sentiment_conv(threads, optimizer, arguments):
    """Sentences are padded, as conv1d needs it; word 0 is padding, whose vector stays 0."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5148, 128, padding_idx=0)
            self.three = nn.Conv1d(128, 128, 3)
            self.four = nn.Conv1d(128, 128, 4)
            self.out = nn.Linear(256, 2)

        def forward(self, words, mask, root):
            h = self.table(words).transpose(1, 2)
            pooled = [torch.tanh(conv(F.pad(h, pad))).mul(mask).sum(2) / root for conv, pad in ((self.three, (1, 1)), (self.four, (1, 2)))]
            return self.out(torch.cat(pooled, 1))

    words, masks, roots = [], [], []
    lengths = torch.randint(5, 101, (128,))
    for _ in range(BATCHES):
        real = torch.arange(int(lengths.max()))[None, :] < lengths[:, None]
        words.append(torch.randint(1, 5148, real.shape) * real)
        masks.append(real[:, None, :].float())
        roots.append(lengths.float().sqrt()[:, None])
    labels = [torch.randint(0, 2, (128,)) for _ in range(BATCHES)]
    return Net(), lambda net, i: F.cross_entropy(net(words[i], masks[i], roots[i]), labels[i])


def transformer(threads, optimizer, arguments):
    batch, length, width, words = int(arguments or 8), 64, 512, 10000

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(words, width) for _ in range(2))
            self.places = nn.ModuleList(nn.Embedding(length, width) for _ in range(2))
            for table in self.tables:
                nn.init.normal_(table.weight, 0, width ** -0.5)
            self.layers = nn.Transformer(width, 8, 6, 6, 2048, dropout=0.0, batch_first=True, norm_first=True)
            self.out = nn.Linear(width, words)
            self.later = nn.Transformer.generate_square_subsequent_mask(length)

        def forward(self, source, source_place, target, target_place):
            source = self.tables[0](source) * width ** 0.5 + self.places[0](source_place)
            target = self.tables[1](target) * width ** 0.5 + self.places[1](target_place)
            return self.out(self.layers(source, target, tgt_mask=self.later))

    def draw(n):
        return stored([torch.randint(0, n, (batch, length)) for _ in range(BATCHES)])

    net = Net()
    inputs = [draw(words), draw(length), draw(words), draw(length)]
    labels = draw(words)
    return net, lambda net, i: F.cross_entropy(net(*(x[i] for x in inputs)).flatten(0, 1), labels[i].flatten(), label_smoothing=0.1)


MODELS = {"fit_a_line": fit_a_line, "mlp": mlp, "conv": conv, "ctr": ctr, "word2vec": word2vec, "lstm": lstm, "lstm_ragged": lstm_ragged,
          "gru_ragged": gru_ragged, "sentiment_conv": sentiment_conv, "transformer": transformer,
          "vgg16": vgg16, "resnet32": resnet32, "mobilenet": mobilenet, "fc": fully_connected}


def training(model, optimizer, threads, wrap=lambda net: net):
    """Returns a function that runs the step that is i-th in turn, on the network that wrap returns."""
    name, _, arguments = model.partition(":")
    net, loss = MODELS[name](threads, optimizer, arguments)
    wrapped = wrap(net)
    if optimizer == "adam":
        tables = [m.weight for m in net.modules() if isinstance(m, nn.Embedding) and m.sparse]
        dense = [p for p in net.parameters() if all(p is not table for table in tables)]
        updates = [torch.optim.Adam(dense, lr=1e-3, foreach=True)]
        if tables:
            updates.append(torch.optim.SparseAdam(tables, lr=1e-3))
    elif optimizer == "sgd":
        updates = [torch.optim.SGD(net.parameters(), lr=1e-3)]
    else:
        raise SystemExit(f"unknown optimizer {optimizer}")

    def step(i):
        for update in updates:
            update.zero_grad(set_to_none=True)
        loss(wrapped, i % BATCHES).backward()
        for update in updates:
            update.step()
    return step


def product(arguments):
    """Returns a function that multiplies two matrices into a third."""
    m, k, n = (int(side) for side in arguments.split("x"))
    left, right, out = torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)
    return lambda i: torch.mm(left, right, out=out)


def repeat(seconds, work):
    """The windows of measure.Repeat: sorted microseconds of one repetition, by the clock and of processor time."""
    i, start = 0, time.perf_counter()
    while i < FEWEST or time.perf_counter() - start < seconds / 4:
        work(i)
        i += 1
    repetitions = 1 + int(WINDOW * i / (time.perf_counter() - start))
    windows, cpu, start = [], [], time.perf_counter()
    while len(windows) < FEWEST or time.perf_counter() - start < seconds:
        used, begin = time.process_time(), time.perf_counter()
        for _ in range(repetitions):
            work(i)
            i += 1
        windows.append((time.perf_counter() - begin) * 1e6 / repetitions)
        cpu.append((time.process_time() - used) * 1e6 / repetitions)
    return sorted(windows), sorted(cpu)


def median(values):
    """Of sorted values."""
    n = len(values)
    return (values[(n - 1) // 2] + values[n // 2]) / 2


def main():
    if len(sys.argv) != 4:
        raise SystemExit("usage: measure.py WORKLOAD THREADS SECONDS")
    workload, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    start_memory = peak_memory()
    model, _, optimizer = workload.partition("/")
    if model.startswith("sgemm:"):
        work = product(model.partition(":")[2])
    else:
        work = training(model, optimizer, threads)
    windows, cpu = repeat(seconds, work)
    print(json.dumps({
        "median_us": median(windows),
        "fastest_us": windows[0],
        "cpu_median_us": median(cpu),
        "cpu_fastest_us": cpu[0],
        "windows": len(windows),
        "peak_bytes": peak_memory(),
        "start_bytes": start_memory,
    }))


if __name__ == "__main__":
    main()
