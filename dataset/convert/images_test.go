package convert_test

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/tensor"
)

// A recordList is a writer that keeps records.
type recordList [][]*tensor.Tensor

func (l *recordList) Write(record []byte) error {
	tensors, err := dataset.DecodeRecord(record)
	*l = append(*l, tensors)
	return err
}

// stripes is a picture of vertical stripes of equal width, as a PNG file.
func stripes(t *testing.T, width, height int, colors ...color.NRGBA) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for x := range width {
		for y := range height {
			m.SetNRGBA(x, y, colors[x*len(colors)/width])
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func writeImages(root fstest.MapFS, o convert.ImageOptions) (f *convert.ImageFolder, train, test recordList, err error) {
	if f, err = convert.OpenImages(root); err == nil {
		err = f.Write(context.Background(), o, &train, &test)
	}
	return f, train, test, err
}

// Folders are classes, the middle of a picture is taken, and neither the number of workers nor other files change a record.
func TestImages(t *testing.T) {
	red, green, blue, clear := color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 255, 0, 255}, color.NRGBA{0, 0, 255, 255}, color.NRGBA{255, 255, 255, 0}
	gray := image.NewGray(image.Rect(0, 0, 16, 16))
	for i := range gray.Pix {
		gray.Pix[i] = 51
	}
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, gray, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	root := fstest.MapFS{
		"cats/wide.png":    {Data: stripes(t, 12, 4, red, green, blue)},
		"cats/deep/a.JPG":  {Data: photo.Bytes()},
		"dogs/clear.png":   {Data: stripes(t, 4, 4, clear)},
		"dogs/notes.txt":   {Data: []byte("no picture")},
		"dogs/.hidden.png": {Data: []byte("no picture")},
		"empty/.notes.txt": {Data: []byte("no class")},
		"notes.txt":        {Data: []byte("no class")},
	}
	f, train, test, err := writeImages(root, convert.ImageOptions{Height: 2, Width: 2, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Classes, []string{"cats", "dogs"}) || len(train) != 3 || len(test) != 0 {
		t.Fatalf("classes %v, %d records for training and %d for the test, want cats and dogs, 3 and 0", f.Classes, len(train), len(test))
	}
	var got [][]float32
	for _, record := range train {
		if record[0].String() != "float32[3 2 2]" || record[1].String() != "int64[1]" {
			t.Fatalf("a record of %v", record)
		}
		got = append(got, append([]float32{float32(record[1].Int64s()[0])}, record[0].Float32s()...))
	}
	slices.SortFunc(got, func(a, b []float32) int { return slices.Compare(a, b) })
	for i, want := range [][]float32{
		{0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0},             // the green stripe
		{0, .2, .2, .2, .2, .2, .2, .2, .2, .2, .2, .2, .2}, // gray
		{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},             // transparent
	} {
		if !slices.Equal(got[i], want) {
			t.Errorf("record %d: %v, want %v", i, got[i], want)
		}
	}
	_, again, _, err := writeImages(root, convert.ImageOptions{Height: 2, Width: 2, Workers: 7})
	if err != nil || len(again) != len(train) {
		t.Fatal(len(again), err)
	}
	for i := range train {
		if !slices.Equal(again[i][0].Float32s(), train[i][0].Float32s()) {
			t.Errorf("record %d depends on the number of workers", i)
		}
	}
	_, train, test, err = writeImages(root, convert.ImageOptions{Height: 1, Width: 3, Gray: true, Test: 0.99, Workers: 2})
	if err != nil || len(train)+len(test) != 3 || len(test) == 0 || test[0][0].String() != "float32[1 1 3]" {
		t.Errorf("%d and %d records, %v", len(train), len(test), err)
	}
}

// What is no picture is an error that names the file; a size that a file only claims allocates nothing.
func TestImagesAreRefused(t *testing.T) {
	good := stripes(t, 4, 4, color.NRGBA{1, 2, 3, 255})
	huge := slices.Clone(good)
	copy(huge[16:24], []byte{0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff}) // width and height; the sum of the chunk is wrong then, which a reader may find first
	for name, c := range map[string]struct {
		data []byte
		o    convert.ImageOptions
		want string
	}{
		"text":  {[]byte("text"), convert.ImageOptions{Height: 1, Width: 1}, "a/x.png: image: unknown format: got a file that is no picture, want PNG or JPEG"},
		"cut":   {good[:len(good)-20], convert.ImageOptions{Height: 1, Width: 1}, "got a damaged picture, want a whole one"},
		"huge":  {huge, convert.ImageOptions{Height: 1, Width: 1}, "a/x.png: png: "},
		"size":  {good, convert.ImageOptions{Height: 1 << 40, Width: 1 << 40}, "want at least 1 times 1"},
		"none":  {good, convert.ImageOptions{}, "want at least 1 times 1"},
		"share": {good, convert.ImageOptions{Height: 1, Width: 1, Test: 1}, "want 0 to less than 1"},
	} {
		c.o.Workers = 2
		_, _, _, err := writeImages(fstest.MapFS{"a/x.png": {Data: c.data}, "b/y.png": {Data: good}}, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := convert.OpenImages(fstest.MapFS{"a/x.png": {Data: good}}); err == nil || !strings.Contains(err.Error(), "want at least two") {
		t.Errorf("one class: %v", err)
	}
	for name, files := range map[string]fstest.MapFS{
		"a/l.png: invalid argument: got a symbolic link": {"a/x.png": {Data: good}, "a/l.png": {Data: []byte("x.png"), Mode: fs.ModeSymlink}, "b/y.png": {Data: good}},
		"c: invalid argument: got a symbolic link":       {"a/x.png": {Data: good}, "b/y.png": {Data: good}, "c": {Data: []byte("a"), Mode: fs.ModeSymlink}},
		"z.png: invalid argument: got a picture beside":  {"a/x.png": {Data: good}, "b/y.png": {Data: good}, "z.png": {Data: good}},
	} {
		if _, err := convert.OpenImages(files); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
	if _, err := convert.OpenImages(fstest.MapFS{"a/x.png": {Data: good}, "b/y.gif": {Data: good}, "c/z.png": {Data: good}}); err == nil || !strings.Contains(err.Error(), "b: invalid argument: got a folder without .png") {
		t.Errorf("a class without pictures: %v", err)
	}
}
