package convert

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/fault"
)

// idx makes an idx file of uint8.
func idx(elements []byte, dims ...uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, idxUint8|uint32(len(dims)))
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, elements...)
}

func zip(t testing.TB, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

var (
	threeImages = idx([]byte{0, 255, 51, 0, 1, 1, 1, 1, 2, 2, 2, 2}, 3, 2, 2)
	threeLabels = idx([]byte{7, 8, 9}, 3)
)

func mnist(t testing.TB, images, labels []byte, o MNISTOptions) (*kept, error) {
	t.Helper()
	w := &kept{t: t}
	n, err := MNIST(background, bytes.NewReader(images), bytes.NewReader(labels), w, o)
	if n != len(w.samples) {
		t.Errorf("%d samples counted of %d", n, len(w.samples))
	}
	return w, err
}

func TestMNIST(t *testing.T) {
	for name, c := range map[string]struct {
		options MNISTOptions
		dims    string
		labels  []int64
	}{
		"all":         {MNISTOptions{}, "float32[4]", []int64{7, 8, 9}},
		"first":       {MNISTOptions{First: 2, Dims: []int64{1, 2, 2}}, "float32[1 2 2]", []int64{7, 8}},
		"last":        {MNISTOptions{Last: 1, Dims: []int64{4}}, "float32[4]", []int64{9}},
		"first three": {MNISTOptions{First: 3}, "float32[4]", []int64{7, 8, 9}},
	} {
		w, err := mnist(t, zip(t, threeImages), threeLabels, c.options)
		if err != nil || len(w.samples) != len(c.labels) {
			t.Fatalf("%s: %d samples, error %v", name, len(w.samples), err)
		}
		for i, s := range w.samples {
			if s[0].String() != c.dims || s[1].Int64s()[0] != c.labels[i] {
				t.Errorf("%s: sample %d is %v with label %v", name, i, s[0], s[1].Int64s())
			}
		}
	}
	w, err := mnist(t, threeImages, zip(t, threeLabels), MNISTOptions{First: 1})
	if got := w.features(0); err != nil || got[0] != -1 || got[1] != 1 || got[2] != float32(51)/255*2-1 {
		t.Errorf("pixels %v, error %v", got, err)
	}
}

func TestMNISTCutAnywhere(t *testing.T) {
	for n := range threeImages {
		if _, err := mnist(t, threeImages[:n], threeLabels, MNISTOptions{}); !errors.Is(err, fault.Corrupt) {
			t.Errorf("the first %d bytes of the images: %v", n, err)
		}
	}
	for n := range threeLabels {
		if _, err := mnist(t, threeImages, threeLabels[:n], MNISTOptions{}); !errors.Is(err, fault.Corrupt) {
			t.Errorf("the first %d bytes of the labels: %v", n, err)
		}
	}
	zipped := zip(t, threeImages)
	for n := range zipped {
		if _, err := mnist(t, zipped[:n], threeLabels, MNISTOptions{First: 1}); !errors.Is(err, fault.Corrupt) {
			t.Errorf("the first %d bytes of the zipped images: %v", n, err)
		}
	}
}

func TestMNISTRefusals(t *testing.T) {
	flipped := zip(t, threeImages)
	flipped[len(flipped)-5] ^= 1 // of the checksum
	for name, c := range map[string]struct {
		images, labels []byte
		options        MNISTOptions
		kind           fault.Kind
	}{
		"labels as images":  {threeLabels, threeLabels, MNISTOptions{}, fault.Corrupt},
		"counts differ":     {threeImages, idx([]byte{1, 2}, 2), MNISTOptions{}, fault.Corrupt},
		"label 10":          {threeImages, idx([]byte{7, 10, 9}, 3), MNISTOptions{}, fault.Corrupt},
		"an image too many": {append(bytes.Clone(threeImages), 0), threeLabels, MNISTOptions{}, fault.Corrupt},
		"checksum":          {flipped, threeLabels, MNISTOptions{}, fault.Corrupt},
		"huge image":        {idx(nil, 1, 1<<31, 1<<31), idx([]byte{1}, 1), MNISTOptions{}, fault.TooLarge},
		"promised images":   {idx(nil, 1<<31, 28, 28), idx(nil, 1<<31), MNISTOptions{}, fault.Corrupt},
		"dims":              {threeImages, threeLabels, MNISTOptions{Dims: []int64{784}}, fault.ShapeMismatch},
		"first four":        {threeImages, threeLabels, MNISTOptions{First: 4}, fault.InvalidArgument},
		"first and last":    {threeImages, threeLabels, MNISTOptions{First: 1, Last: 1}, fault.InvalidArgument},
	} {
		if _, err := mnist(t, c.images, c.labels, c.options); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
}

func TestRealMNIST(t *testing.T) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is unset: no MNIST")
	}
	open := func(name string) io.Reader {
		f, err := os.Open(filepath.Join(root, "mnist", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	w := &kept{t: t}
	n, err := MNIST(background, open("t10k-images-idx3-ubyte.gz"), open("t10k-labels-idx1-ubyte.gz"), w, MNISTOptions{First: 9000})
	if err != nil || n != 9000 {
		t.Fatalf("%d samples, error %v", n, err)
	}
	for i, label := range []int64{7, 2, 1, 0, 4, 1, 4, 9, 5, 9} {
		if got := w.samples[i][1].Int64s()[0]; got != label {
			t.Errorf("label %d is %d, want %d", i, got, label)
		}
	}
}

func FuzzMNIST(f *testing.F) {
	f.Add(threeImages, threeLabels)
	f.Add(zip(f, threeImages), zip(f, threeLabels))
	f.Fuzz(func(t *testing.T, images, labels []byte) {
		w, err := mnist(t, images, labels, MNISTOptions{})
		if err != nil && fault.KindOf(err) != fault.Corrupt && fault.KindOf(err) != fault.TooLarge {
			t.Fatalf("unexpected kind of error: %v", err)
		}
		if len(w.samples) > len(labels)*1100 {
			t.Fatalf("%d samples of %d bytes", len(w.samples), len(labels))
		}
	})
}
