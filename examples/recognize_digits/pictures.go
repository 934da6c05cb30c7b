package main

import (
	"context"
	"errors"
	"os"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/dataset/digits"
	"github.com/edl-go/edl/examples/internal/page"
)

// testPictures is the size of the test set.
const testPictures = 1000

// imageDims are those of one picture: one channel, rows, columns.
var imageDims = []int64{1, digits.Side, digits.Side}

func writePictures(out, images, labels string) error {
	ctx := context.Background()
	if (images == "") != (labels == "") {
		return errors.New("-mnist-images and -mnist-labels belong together")
	}
	fill := func(w dataset.RecordWriter, first, count int) error {
		return digits.Write(ctx, w, digits.Options{Seed: 1, First: first, Count: count, Dims: imageDims})
	}
	train := func(w dataset.RecordWriter) error { return fill(w, 0, 6000) }
	test := func(w dataset.RecordWriter) error { return fill(w, 6000, testPictures) }
	if images != "" {
		total, err := convertMNIST(ctx, images, labels, discard{}, convert.MNISTOptions{})
		if err != nil {
			return err
		}
		train = func(w dataset.RecordWriter) error {
			_, err := convertMNIST(ctx, images, labels, w, convert.MNISTOptions{Dims: imageDims, First: total - testPictures})
			return err
		}
		test = func(w dataset.RecordWriter) error {
			_, err := convertMNIST(ctx, images, labels, w, convert.MNISTOptions{Dims: imageDims, Last: testPictures})
			return err
		}
	}
	if err := page.Dataset(out, "train", train); err != nil {
		return err
	}
	return page.Dataset(out, "test", test)
}

func convertMNIST(ctx context.Context, images, labels string, w dataset.RecordWriter, options convert.MNISTOptions) (int, error) {
	i, err := os.Open(images)
	if err != nil {
		return 0, err
	}
	defer i.Close()
	l, err := os.Open(labels)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return convert.MNIST(ctx, i, l, w, options)
}

// discard is where records go that are only counted.
type discard struct{}

func (discard) Write([]byte) error { return nil }
