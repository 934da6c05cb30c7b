package layers

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
