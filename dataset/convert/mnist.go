package convert

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// MNISTOptions says which images to convert and in which shape.
type MNISTOptions struct {
	Dims  []int64 // of an image, such as [784] or [1 28 28]; default one dim
	First int     // how many images to take from the start; 0 means all
	Last  int     // how many images to take from the end; not together with First
}

// Bounds on idx files.
const (
	maxPixels  = 1 << 20 // of an image
	mnistLabel = 10      // labels are below
)

// MNIST converts a pair of idx files, gzipped or not, into samples of image float32 and label int64[1]. It returns the number of samples. A pixel x
// becomes x/255*2 - 1, which is in [-1, 1]. MNIST reads both files to the end and checks all of them, even if it converts only some images.
func MNIST(ctx context.Context, images, labels io.Reader, w dataset.RecordWriter, options MNISTOptions) (int, error) {
	m, err := openMNIST(images, labels)
	if err != nil {
		return 0, err
	}
	from, to, err := options.rangeOf(m.count)
	if err != nil {
		return 0, err
	}
	dims := options.Dims
	if dims == nil {
		dims = []int64{m.pixels}
	}
	if n, ok := tensor.Count(dims); !ok || int64(n) != m.pixels {
		return 0, fault.E(fault.ShapeMismatch, fault.At("images"), fault.Gotf("%d pixels", m.pixels), fault.Wantf("dims %v", dims))
	}
	s, err := newSampleWriter(w, tensor.Int64, dims...)
	if err != nil {
		return 0, err
	}
	for i := range m.count {
		if err := interrupt.Check(ctx, "mnist"); err != nil {
			return s.written, err
		}
		if err := m.next(i); err != nil {
			return s.written, err
		}
		if i < from || i >= to {
			continue
		}
		for j, x := range m.pixel {
			s.features.Float32s()[j] = float32(x)/255*2 - 1
		}
		s.label.Int64s()[0] = int64(m.label[0])
		if err := s.write(); err != nil {
			return s.written, err
		}
	}
	return s.written, m.end()
}

// rangeOf returns the images [from, to) of count that the options ask for.
func (o MNISTOptions) rangeOf(count int64) (from, to int64, err error) {
	first, last := int64(o.First), int64(o.Last)
	if first < 0 || last < 0 || first > count || last > count || first > 0 && last > 0 {
		return 0, 0, fault.E(fault.InvalidArgument, fault.Gotf("the first %d and the last %d images", first, last),
			fault.Wantf("one of them, up to %d", count))
	}
	switch {
	case first > 0:
		return 0, first, nil
	case last > 0:
		return count - last, count, nil
	default:
		return 0, count, nil
	}
}

// A mnistReader reads images and labels together.
type mnistReader struct {
	images, labels io.Reader
	count, pixels  int64
	pixel          []byte // of the current image
	label          [1]byte
}

func openMNIST(images, labels io.Reader) (m *mnistReader, err error) {
	m = &mnistReader{}
	if m.images, err = gunzip(images, "images"); err != nil {
		return nil, err
	}
	if m.labels, err = gunzip(labels, "labels"); err != nil {
		return nil, err
	}
	dims, err := idxHeader(m.images, "images", 3)
	if err != nil {
		return nil, err
	}
	count, err := idxHeader(m.labels, "labels", 1)
	if err != nil {
		return nil, err
	}
	if dims[0] != count[0] {
		return nil, fault.E(fault.Corrupt, fault.At("labels"), fault.Gotf("%d labels", count[0]), fault.Wantf("one for each of %d images", dims[0]))
	}
	if dims[1] > maxPixels || dims[2] > maxPixels || dims[1]*dims[2] > maxPixels {
		return nil, fault.E(fault.TooLarge, fault.At("images"), fault.Gotf("images of %d x %d", dims[1], dims[2]),
			fault.Wantf("at most %d pixels", maxPixels))
	}
	m.count, m.pixels = dims[0], dims[1]*dims[2]
	m.pixel = make([]byte, m.pixels)
	return m, nil
}

// next reads image i.
func (m *mnistReader) next(i int64) error {
	if _, err := io.ReadFull(m.images, m.pixel); err != nil {
		return idxError(err, fmt.Sprintf("image %d", i))
	}
	if _, err := io.ReadFull(m.labels, m.label[:]); err != nil {
		return idxError(err, fmt.Sprintf("label %d", i))
	}
	if m.label[0] >= mnistLabel {
		return fault.E(fault.Corrupt, fault.Atf("label %d", i), fault.Got(fmt.Sprint(m.label[0])), fault.Want("0 to 9"))
	}
	return nil
}

func (m *mnistReader) end() error {
	if err := idxEnd(m.images, "images"); err != nil {
		return err
	}
	return idxEnd(m.labels, "labels")
}

// An idx file is a magic number (two zero bytes, element type 8 for uint8, rank), that many uint32 dims, big-endian, and
// the elements.
const idxUint8 = 0x0800

// idxHeader reads the header of an idx file of uint8 and returns its dims.
func idxHeader(r io.Reader, what string, rank int) ([]int64, error) {
	words := make([]byte, 4*(1+rank))
	if _, err := io.ReadFull(r, words); err != nil {
		return nil, idxError(err, what+" header")
	}
	if magic := binary.BigEndian.Uint32(words); magic != idxUint8|uint32(rank) {
		return nil, fault.E(fault.Corrupt, fault.At(what), fault.Gotf("magic number 0x%08x", magic), fault.Wantf("0x%08x", idxUint8|rank))
	}
	dims := make([]int64, rank)
	for i := range dims {
		dims[i] = int64(binary.BigEndian.Uint32(words[4*(i+1):]))
	}
	return dims, nil
}

// gunzip decompresses r if it is gzip, else it returns r.
func gunzip(r io.Reader, what string) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	if head, _ := buffered.Peek(2); len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return buffered, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, idxError(err, what)
	}
	return z, nil
}

// idxEnd reports bytes after the end of the data. Reading to the end also checks the checksum of gzip.
func idxEnd(r io.Reader, what string) error {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	if err == nil {
		return fault.E(fault.Corrupt, fault.At(what), fault.Got("bytes after the last element"), fault.Want("none"))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return idxError(err, what)
}

// idxError distinguishes damaged files from errors of the underlying reader.
func idxError(err error, where string) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.E(fault.Corrupt, fault.At(where), fault.Cause(errCut))
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, new(flate.CorruptInputError)):
		return fault.Wrap(fault.Corrupt, where, err)
	default:
		return fault.Wrap(fault.Unavailable, where, err)
	}
}

var errCut = fmt.Errorf("cut short: %w", io.ErrUnexpectedEOF)
