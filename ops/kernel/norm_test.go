package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

// normalised is the definition: each group of values, given by its places, shifted to mean 0 and scaled to variance 1.
func normalised(x []float64, group func(i int) int, groups int, epsilon float64) (out, mean, variance []float64) {
	count := make([]float64, groups)
	mean, variance, out = make([]float64, groups), make([]float64, groups), make([]float64, len(x))
	for i, v := range x {
		mean[group(i)] += v
		count[group(i)]++
	}
	for g := range mean {
		mean[g] /= count[g]
	}
	for i, v := range x {
		variance[group(i)] += (v - mean[group(i)]) * (v - mean[group(i)]) / count[group(i)]
	}
	for i, v := range x {
		out[i] = (v - mean[group(i)]) / math.Sqrt(variance[group(i)]+epsilon)
	}
	return out, mean, variance
}

const normEpsilon = 1e-3

func TestBatchNorm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, c, hw := rapid.IntRange(1, 4).Draw(t, "n"), rapid.IntRange(0, 3).Draw(t, "c"), rapid.IntRange(1, 6).Draw(t, "hw")
		seed := rapid.Int64().Draw(t, "seed")
		channel := func(i int) int { return i / hw % c }
		x, scale, bias := noise[float64](seed, n*c*hw), positive[float64](seed+1, c), noise[float64](seed+2, c)
		running, spread := noise[float64](seed+3, c), positive[float64](seed+4, c)
		dout := noise[float64](seed+5, len(x))

		reference := func() []float64 {
			out, _, _ := normalised(x, channel, c, normEpsilon)
			for i := range out {
				out[i] = out[i]*scale[channel(i)] + bias[channel(i)]
			}
			return out
		}
		want := reference()
		_, mean, variance := normalised(x, channel, c, normEpsilon)
		out, savedMean, savedInverse := make([]float64, len(x)), make([]float64, c), make([]float64, c)
		newMean, newVariance := slices.Clone(running), slices.Clone(spread)
		batchNormTrain(out, savedMean, savedInverse, newMean, newVariance, x, scale, bias, n, c, hw)
		for i := range out {
			near(t, out[i], want[i], 100, "out[%d]", i)
		}
		for ch := range c {
			near(t, savedMean[ch], mean[ch], 1, "saved mean")
			near(t, savedInverse[ch], 1/math.Sqrt(variance[ch]+normEpsilon), 100, "saved inverse std")
			near(t, newMean[ch], 0.9*running[ch]+0.1*mean[ch], 1, "running mean")
			near(t, newVariance[ch], 0.9*spread[ch]+0.1*variance[ch], 1, "running variance")
		}
		single, stats := make([]float32, len(x)), make([]float32, 4*c)
		batchNormTrain(single, stats[:c], stats[c:2*c], stats[2*c:3*c], stats[3*c:], convert[float32](x), convert[float32](scale), convert[float32](bias),
			n, c, hw)
		for i := range single {
			near(t, single[i], want[i], 100, "float32 out[%d]", i)
		}

		dx, dscale, dbias := make([]float64, len(x)), make([]float64, c), make([]float64, c)
		batchNormGrad(dx, dscale, dbias, x, scale, savedMean, savedInverse, dout, n, c, hw)
		loss := func() float64 { return dot(reference(), dout) }
		sameNormGradient(t, "dx", dx, gradientOf(x, loss))
		sameNormGradient(t, "dscale", dscale, gradientOf(scale, loss))
		sameNormGradient(t, "dbias", dbias, gradientOf(bias, loss))
		inPlace := slices.Clone(dout)
		batchNormGrad(inPlace, dscale, dbias, x, scale, savedMean, savedInverse, inPlace, n, c, hw)
		sameBits(t, inPlace, dx)

		infer := func() float64 {
			BatchNormInfer(out, x, scale, bias, running, spread, n, c, hw, 0, c, normEpsilon)
			return dot(out, dout)
		}
		infer()
		for i := range out {
			ch := channel(i)
			near(t, out[i], (x[i]-running[ch])/math.Sqrt(spread[ch]+normEpsilon)*scale[ch]+bias[ch], 1, "inferred[%d]", i)
		}
		BatchNormInferGrad(dx, dscale, dbias, x, scale, running, spread, dout, n, c, hw, 0, c, normEpsilon)
		sameNormGradient(t, "inferred dx", dx, gradientOf(x, infer))
		sameNormGradient(t, "inferred dscale", dscale, gradientOf(scale, infer))
		sameNormGradient(t, "inferred dbias", dbias, gradientOf(bias, infer))
	})
}

// batchNormTrain normalises a batch, the last image and the channels of the second half first.
func batchNormTrain[T tensor.Float](out, savedMean, savedInverse, runningMean, runningVariance, x, scale, bias []T, n, c, hw int) {
	parts, stats, size := noise[float64](1, n*2*c), noise[float64](2, BatchNormStats*c), c*hw
	BatchNormParts(parts[(n-1)*2*c:], x[(n-1)*size:], 1, c, hw)
	BatchNormParts(parts, x, n-1, c, hw)
	for _, r := range [][2]int{{c / 2, c}, {0, c / 2}} {
		BatchNormJoin(stats, parts, n, c, hw, r[0], r[1], normEpsilon)
		BatchNormMove(savedMean, savedInverse, runningMean, runningVariance, stats, c, r[0], r[1], 0.9)
	}
	BatchNormImages(out[(n-1)*size:], x[(n-1)*size:], scale, bias, stats, 1, c, hw, nil)
	BatchNormImages(out, x, scale, bias, stats, n-1, c, hw, nil)
}

// batchNormGrad is the gradient of batchNormTrain.
func batchNormGrad[T tensor.Float](dx, dscale, dbias, x, scale, savedMean, savedInverse, dout []T, n, c, hw int) {
	parts, grads, size := noise[float64](1, n*2*c), noise[float64](2, 2*c), c*hw
	BatchNormGradParts(parts[(n-1)*2*c:], x[(n-1)*size:], dout[(n-1)*size:], savedMean, 1, c, hw)
	BatchNormGradParts(parts, x, dout, savedMean, n-1, c, hw)
	BatchNormGradJoin(grads, parts, savedInverse, n, c, c/2, c)
	BatchNormGradJoin(grads, parts, savedInverse, n, c, 0, c/2)
	for ch := range c {
		dbias[ch], dscale[ch] = T(grads[ch]), T(grads[c+ch])
	}
	BatchNormGradImages(dx[(n-1)*size:], x[(n-1)*size:], dout[(n-1)*size:], scale, savedMean, savedInverse, grads, float64(n*hw), 1, c, hw)
	BatchNormGradImages(dx, x, dout, scale, savedMean, savedInverse, grads, float64(n*hw), n-1, c, hw)
}

// The activation of a normalised image is that of all its elements, however long its channels are.
func TestBatchNormActivation(t *testing.T) {
	for _, hw := range []int{1, 5, 1000, 3000} {
		const n, c = 2, 3
		x, stats := noise[float32](1, n*c*hw), positive[float64](2, BatchNormStats*c)
		scale, bias := positive[float32](3, c), noise[float32](4, c)
		want, got := make([]float32, len(x)), make([]float32, len(x))
		BatchNormImages(want, x, scale, bias, stats, n, c, hw, nil)
		Relu(want, want)
		BatchNormImages(got, x, scale, bias, stats, n, c, hw, Relu[float32])
		sameBits(t, got, want)
	}
}

// sameNormGradient allows for the strong curvature where a group of nearly equal values is normalised.
func sameNormGradient(t reporter, what string, got, want []float64) {
	t.Helper()
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= 1e-3*(1+math.Abs(want[i]))) {
			t.Fatalf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestLayerNorm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, width := rapid.IntRange(0, 4).Draw(t, "rows"), rapid.IntRange(1, 9).Draw(t, "width")
		seed := rapid.Int64().Draw(t, "seed")
		x, dout := noise[float64](seed, rows*width), noise[float64](seed+1, rows*width)
		scale, bias := positive[float64](seed+2, width), noise[float64](seed+3, width)
		plain := rapid.Bool().Draw(t, "without scale and bias")
		if plain {
			scale, bias = nil, nil
		}
		reference := func() []float64 {
			out, _, _ := normalised(x, func(i int) int { return i / width }, rows, normEpsilon)
			for i := range out {
				if !plain {
					out[i] = out[i]*scale[i%width] + bias[i%width]
				}
			}
			return out
		}
		_, wantMean, wantVariance := normalised(x, func(i int) int { return i / width }, rows, normEpsilon)
		want := reference()
		out, mean, variance := make([]float64, len(x)), make([]float64, rows), make([]float64, rows)
		LayerNorm(out, mean, variance, x, scale, bias, rows, width, normEpsilon)
		nearAll(t, "mean", mean, wantMean)
		nearAll(t, "variance", variance, wantVariance)
		for i := range out {
			near(t, out[i], want[i], 100, "out[%d]", i)
		}
		if rows > 0 {
			last := slices.Clone(x[(rows-1)*width:])
			LayerNorm(last, mean, variance, last, scale, bias, 1, width, normEpsilon)
			sameBits(t, last, out[(rows-1)*width:])
			LayerNorm(out, mean, variance, x, scale, bias, rows, width, normEpsilon)
		}

		loss := func() float64 { return dot(reference(), dout) }
		dx, dscale, dbias := make([]float64, len(x)), make([]float64, width), make([]float64, width)
		LayerNormGrad(dx, x, scale, mean, variance, dout, rows, width, normEpsilon)
		for _, places := range [][2]int{{width / 3, width}, {0, width / 3}} {
			LayerNormParamGrad(dscale, dbias, x, mean, variance, dout, rows, width, places[0], places[1], normEpsilon)
		}
		sameNormGradient(t, "dx", dx, gradientOf(x, loss))
		if !plain {
			sameNormGradient(t, "dscale", dscale, gradientOf(scale, loss))
			sameNormGradient(t, "dbias", dbias, gradientOf(bias, loss))
		}
		LayerNormGrad(dout, x, scale, mean, variance, dout, rows, width, normEpsilon)
		sameBits(t, dout, dx)
	})
}
