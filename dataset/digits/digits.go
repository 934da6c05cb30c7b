// Package digits makes a dataset of digits from Go's own fonts, in the shape of MNIST: grey images of 28x28 and labels 0 to 9. Examples, tests and
// first steps can train it without a download.
//
// Each image is a digit of one of eight fonts, turned, scaled, sheared and shifted at random, with noise. Any ten samples that start at a multiple
// of ten have each digit once. Sample i is a function of seed and i, the same on every machine. So a training set and a test set are different
// seeds or different ranges of i.
package digits

import (
	"context"
	"math/rand/v2"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Side is the width and height of an image in pixels.
const Side = 28

// defaultNoise is the largest change of a pixel by noise, on a scale to 255.
const defaultNoise = 24

// A Renderer renders the samples of one seed. It is not safe for concurrent use.
type Renderer struct {
	seed   uint64
	noise  int
	masks  [][digitCount]mask
	source rand.PCG
	random *rand.Rand
	image  [Side * Side]uint8
}

// NewRenderer returns the renderer of a seed.
func NewRenderer(seed uint64) (*Renderer, error) {
	masks, err := glyphs()
	if err != nil {
		return nil, err
	}
	r := &Renderer{seed: seed, noise: defaultNoise, masks: masks}
	r.random = rand.New(&r.source)
	return r, nil
}

// Label returns the digit of sample i. i is 0 or more.
func (r *Renderer) Label(i int) int {
	r.source.Seed(r.seed, ^uint64(i/digitCount)) // numbers far above those of samples
	var order [digitCount]int
	for digit := range order {
		order[digit] = digit
	}
	r.random.Shuffle(digitCount, func(a, b int) { order[a], order[b] = order[b], order[a] })
	return order[i%digitCount]
}

// Render draws sample i into pixels, which has Side*Side elements, row by row, from -1 (background) to 1, and returns its
// label.
func (r *Renderer) Render(i int, pixels []float32) (label int) {
	label = r.Label(i)
	r.source.Seed(r.seed, uint64(i))
	glyph := &r.masks[r.random.IntN(len(r.masks))][label]
	randomWarp(r.random).draw(glyph, &r.image)
	ink := 160 + r.random.IntN(96) // on a scale to 255
	for j, coverage := range r.image {
		noise := r.random.IntN(2*r.noise+1) - r.noise
		v := min(255, max(0, int(coverage)*ink/255+noise))
		pixels[j] = float32(v)/255*2 - 1
	}
	return label
}

// Options are the options of Write.
type Options struct {
	Seed  uint64
	First int // number of the first sample
	Count int
	Dims  []int64 // of an image: [784] (default), [1 28 28] or the like
}

// Write writes samples of image float32 and label int64[1].
func Write(ctx context.Context, w dataset.RecordWriter, options Options) error {
	if options.First < 0 || options.Count < 0 || options.First+options.Count < options.First {
		return fault.E(fault.InvalidArgument, fault.Gotf("%d digits from %d on", options.Count, options.First), fault.Want("0 or more"))
	}
	dims := options.Dims
	if dims == nil {
		dims = []int64{Side * Side}
	}
	if n, ok := tensor.Count(dims); !ok || n != Side*Side {
		return fault.E(fault.ShapeMismatch, fault.Gotf("dims %v", dims), fault.Wantf("%d pixels", Side*Side))
	}
	image, err := tensor.New(tensor.Float32, dims...)
	if err != nil {
		return err
	}
	label, err := tensor.New(tensor.Int64, 1)
	if err != nil {
		return err
	}
	r, err := NewRenderer(options.Seed)
	if err != nil {
		return err
	}
	var record []byte
	for i := options.First; i < options.First+options.Count; i++ {
		if err := interrupt.Check(ctx, "digits"); err != nil {
			return err
		}
		label.Int64s()[0] = int64(r.Render(i, image.Float32s()))
		record = dataset.AppendRecord(record[:0], image, label)
		if err := w.Write(record); err != nil {
			return err
		}
	}
	return nil
}
