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

// RandPerm draws a random order of the numbers from 0 to n-1, int64 [n], a new one in each step and the same on all trainers of a cluster.
//
// Options: Name. Op: randperm.
func RandPerm(m *Model, n int, opts ...Option) Variable {
	l := begin(m, "randperm", opts)
	if l.failed {
		return l.fail()
	}
	return l.result(l.op("randperm", nil, Attrs{"n": n, "seed": m.seed}, "Out"))
}

// Bernoulli draws 1 or 0 for each element of p, new ones in each step. The element is the probability of 1. No gradient flows through it.
//
// Options: Name. Op: bernoulli.
func Bernoulli(p Variable, opts ...Option) Variable {
	l := start("bernoulli", opts, nil, p)
	return l.result(l.op("bernoulli", In{"X": {p}}, nil, "Out"))
}

// UniformRandomBatchSizeLike draws numbers between low and high for each record of x, new ones in each step. dims are those of the result; the first is that of
// x, whatever it says. The numbers follow from the model's seed, the op, the step and the position in the global batch, as for Dropout.
//
// Options: Name. Op: uniform_random_batch_size_like.
func UniformRandomBatchSizeLike(x Variable, dims []int64, low, high float64, opts ...Option) Variable {
	return noise("uniform_random_batch_size_like", x, dims, Attrs{"min": low, "max": high}, opts)
}

// GaussianRandomBatchSizeLike draws numbers of a normal distribution for each record of x. Otherwise it is as UniformRandomBatchSizeLike.
//
// Options: Name. Op: gaussian_random_batch_size_like.
func GaussianRandomBatchSizeLike(x Variable, dims []int64, mean, std float64, opts ...Option) Variable {
	return noise("gaussian_random_batch_size_like", x, dims, Attrs{"mean": mean, "std": std}, opts)
}

func noise(opType string, x Variable, dims []int64, attrs Attrs, opts []Option) Variable {
	l := start(opType, opts, nil, x)
	if l.failed {
		return l.fail()
	}
	attrs["shape"], attrs["seed"], attrs["dtype"] = dims, l.model.seed, l.dtype
	return l.result(l.op(opType, In{"Input": {x}}, attrs, "Out"))
}

// GumbelSoftmax draws a class for each row of the last axis of x, which holds logarithms of weights, in a form that has a gradient: softmax((x + g)/temperature) with Gumbel noise g, new
// in each step. With hard the result is 1 for one class and 0 for the others, and its gradient is that of the softmax.
//
// Options: Name. Op: gumbel_softmax.
func GumbelSoftmax(x Variable, temperature float64, hard bool, opts ...Option) Variable {
	l := start("gumbel_softmax", opts, nil, x)
	slots := []string{"Out"}
	if hard {
		slots = append(slots, "Soft")
	}
	return l.result(l.multi("gumbel_softmax", In{"X": {x}}, Attrs{"temperature": temperature, "hard": hard}, slots...)[0])
}

// Poisson draws for each element of rates how many events happen at this rate, new numbers in each step. The gradient of rates is 0.
//
// Options: Name. Op: poisson.
func Poisson(rates Variable, opts ...Option) Variable {
	l := start("poisson", opts, nil, rates)
	return l.result(l.op("poisson", In{"X": {rates}}, nil, "Out"))
}

// Dirichlet draws probabilities for each row of weights along the last axis, new ones in each step. The weights are above 0. No gradient flows through it.
//
// Options: Name. Op: dirichlet.
func Dirichlet(weights Variable, opts ...Option) Variable {
	l := start("dirichlet", opts, nil, weights)
	return l.result(l.op("dirichlet", In{"Alpha": {weights}}, nil, "Out"))
}

// RandomRelu multiplies elements of x below 0 by slopes between low and high, which are drawn in each step; in a test by the mean of both.
//
// Options: Name. Op: rrelu.
func RandomRelu(x Variable, low, high float64, opts ...Option) Variable {
	l := start("rrelu", opts, nil, x)
	return l.result(l.multi("rrelu", In{"X": {x}}, Attrs{"lower": low, "upper": high}, "Out", "Noise")[0])
}
