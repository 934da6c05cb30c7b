package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/tensor"
)

// side is the number of pixels in a row of a picture, and of its rows.
const side = 32

// imageDims are those of one picture: red, green and blue, rows, columns.
var imageDims = []int64{3, side, side}

// madeUp is the number of pictures that are drawn for training. A quarter as many are for tests.
const madeUp = 4000

func writePictures(out, cifar string, drawn int) error {
	train := func(w dataset.RecordWriter) error { return draw(w, 1, drawn) }
	test := func(w dataset.RecordWriter) error { return draw(w, 2, drawn/4) }
	if cifar != "" {
		train = func(w dataset.RecordWriter) error {
			for i := 1; i <= 5; i++ {
				if err := readCIFAR(filepath.Join(cifar, fmt.Sprintf("data_batch_%d.bin", i)), w); err != nil {
					return err
				}
			}
			return nil
		}
		test = func(w dataset.RecordWriter) error { return readCIFAR(filepath.Join(cifar, "test_batch.bin"), w) }
	}
	if err := page.Dataset(out, "train", train); err != nil {
		return err
	}
	return page.Dataset(out, "test", test)
}

// readCIFAR copies the pictures of a file. Each is a byte of the label, and the bytes of all reds, of all greens and of all blues.
func readCIFAR(path string, w dataset.RecordWriter) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	picture := make([]byte, 1+3*side*side)
	for n := 0; ; n++ {
		if _, err := io.ReadFull(r, picture); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: picture %d: %w", path, n, err)
		}
		if picture[0] >= classes {
			return fmt.Errorf("%s: picture %d: the label is %d, want 0 to %d", path, n, picture[0], classes-1)
		}
		if err := writePicture(w, int64(picture[0]), func(i int) float32 { return float32(picture[1+i]) / 255 }); err != nil {
			return err
		}
	}
}

// writePicture writes a record of a picture, whose pixels lie between 0 and 1 and become numbers between -1 and 1.
func writePicture(w dataset.RecordWriter, label int64, pixel func(i int) float32) error {
	image, err := tensor.New(tensor.Float32, imageDims...)
	if err != nil {
		return err
	}
	for i := range image.Float32s() {
		image.Float32s()[i] = 2*pixel(i) - 1
	}
	class, err := tensor.FromSlice([]int64{label}, 1)
	if err != nil {
		return err
	}
	return w.Write(dataset.AppendRecord(nil, image, class))
}

// draw makes up pictures: one of five forms, in a warm or in a cold colour, somewhere on a noisy ground. The label tells form and colour.
func draw(w dataset.RecordWriter, seed uint64, n int) error {
	random := rand.New(rand.NewPCG(seed, 3))
	for range n {
		label := random.Int64N(classes)
		size := 6 + 6*random.Float64()
		x0, y0 := size+random.Float64()*(side-2*size), size+random.Float64()*(side-2*size)
		ground := 0.3 * random.Float64()
		err := writePicture(w, label, func(i int) float32 {
			channel, y, x := i/side/side, float64(i/side%side)-y0, float64(i%side)-x0
			value := ground + 0.2*random.Float64()
			if inside(label/2, x/size, y/size) {
				value = 0.2 + 0.2*random.Float64()
				if warm := label%2 == 0; warm && channel == 0 || !warm && channel == 2 {
					value += 0.6
				}
			}
			return float32(value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inside reports whether a point, whose coordinates count from the middle of a form and are 1 at its border, belongs to the form.
func inside(form int64, x, y float64) bool {
	radius := math.Hypot(x, y)
	switch form {
	case 0: // disc
		return radius < 1
	case 1: // square
		return max(math.Abs(x), math.Abs(y)) < 0.85
	case 2: // ring
		return radius < 1 && radius > 0.6
	case 3: // cross
		return min(math.Abs(x), math.Abs(y)) < 0.25 && max(math.Abs(x), math.Abs(y)) < 1
	default: // triangle
		return y < 0.8 && y > 2*math.Abs(x)-0.9
	}
}
