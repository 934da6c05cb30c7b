package kernel

// Cast converts numbers elementwise; both slices are of one length. Floats become integers by truncation towards zero; what
// a NaN or a number outside of the integer's range becomes is up to the machine.
func Cast[To, From Number](out []To, x []From) {
	x = x[:len(out)]
	for i := range out {
		out[i] = To(x[i])
	}
}

// CastFromBool converts false to 0 and true to 1. Both slices are of one length.
func CastFromBool[To Number](out []To, x []bool) {
	x = x[:len(out)]
	for i := range out {
		out[i] = 0
		if x[i] {
			out[i] = 1
		}
	}
}

// CastToBool converts 0 to false and anything else, NaN included, to true. Both slices are of one length.
func CastToBool[From Number](out []bool, x []From) {
	x = x[:len(out)]
	for i := range out {
		out[i] = x[i] != 0
	}
}

// Fill sets every element of out to value.
func Fill[T any](out []T, value T) {
	for i := range out {
		out[i] = value
	}
}
