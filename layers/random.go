package layers

// RandInt draws whole numbers from low to high-1, int64 of these dims, new ones in each step and the same on all trainers of a cluster.
//
// Options: Name. Op: randint.
func RandInt(m *Model, dims []int64, low, high int, opts ...Option) Variable {
	l := begin(m, "randint", opts)
	if l.failed {
		return l.fail()
	}
	return l.result(l.op("randint", nil, Attrs{"shape": dims, "low": low, "high": high, "seed": m.seed}, "Out"))
}

// RandPerm is a random order of the numbers from 0 to n-1, int64 [n], a new one in each step and the same on all trainers of a cluster.
//
// Options: Name. Op: randperm.
func RandPerm(m *Model, n int, opts ...Option) Variable {
	l := begin(m, "randperm", opts)
	if l.failed {
		return l.fail()
	}
	return l.result(l.op("randperm", nil, Attrs{"n": n, "seed": m.seed}, "Out"))
}

// Bernoulli is 1 with the probability that an element of p is, and else 0, new in each step. No gradient flows through it.
//
// Options: Name. Op: bernoulli.
func Bernoulli(p Variable, opts ...Option) Variable {
	l := start("bernoulli", opts, nil, p)
	return l.result(l.op("bernoulli", In{"X": {p}}, nil, "Out"))
}
