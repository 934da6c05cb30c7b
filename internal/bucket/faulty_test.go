package bucket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
)

// faulty is the driver of a bucket with one object, and troubles.
type faulty struct {
	driver.Bucket
	content []byte
	// trouble returns how many bytes of an answer come, and what comes then; nil is the whole answer.
	trouble  func(request int) (bytes int, err error)
	requests int
	asked    int64 // bytes, of all requests
	open     int   // answers
}

func (f *faulty) ErrorCode(err error) gcerrors.ErrorCode {
	if errors.Is(err, errGone) {
		return gcerrors.NotFound
	}
	return gcerrors.Unknown
}

func (f *faulty) ErrorAs(error, any) bool { return false }

var (
	errGone  = errors.New("no such object")
	errBroke = errors.New("connection reset")
)

func (f *faulty) NewRangeReader(ctx context.Context, _ string, offset, length int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	f.requests++
	f.asked += length
	a := &faultyAnswer{bucket: f, ctx: ctx, left: f.content[offset : offset+length], comes: int(length)}
	if f.trouble != nil {
		if comes, err := f.trouble(f.requests); err != nil {
			a.comes, a.then = min(comes, a.comes), err
		}
	}
	if errors.Is(a.then, errGone) {
		return nil, a.then
	}
	f.open++
	return a, nil
}

type faultyAnswer struct {
	bucket *faulty
	ctx    context.Context
	left   []byte
	comes  int
	then   error
}

var errSilence = errors.New("no byte ever comes")

func (a *faultyAnswer) Read(p []byte) (int, error) {
	if a.comes == 0 && a.then != nil {
		if errors.Is(a.then, errSilence) {
			<-a.ctx.Done()
			return 0, a.ctx.Err()
		}
		return 0, a.then
	}
	if len(a.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, a.left[:min(a.comes, 1000)])
	a.left, a.comes = a.left[n:], a.comes-n
	return n, nil
}

func (a *faultyAnswer) Close() error                         { a.bucket.open--; return nil }
func (a *faultyAnswer) Attributes() *driver.ReaderAttributes { return &driver.ReaderAttributes{} }
func (a *faultyAnswer) As(any) bool                          { return false }

func numbers(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 / 3)
	}
	return b
}

func (f *faulty) object(ctx context.Context) *Object {
	return &Object{ctx: ctx, bucket: blob.NewBucket(f), key: "key", size: int64(len(f.content)), patience: time.Hour}
}

// deaf is the driver of a bucket that does what it is told, and loses the answer to each write of one object.
type deaf struct {
	driver.Bucket
	objects map[string][]byte
	lost    string
}

func (d *deaf) ErrorCode(err error) gcerrors.ErrorCode { return (*faulty)(nil).ErrorCode(err) }

func (d *deaf) Close() error { return nil }

func (d *deaf) NewTypedWriter(_ context.Context, key, _ string, _ *driver.WriterOptions) (driver.Writer, error) {
	return &deafWriter{bucket: d, key: key}, nil
}

func (d *deaf) NewRangeReader(ctx context.Context, key string, offset, length int64, o *driver.ReaderOptions) (driver.Reader, error) {
	content, ok := d.objects[key]
	if !ok {
		return nil, errGone
	}
	if length < 0 || length > int64(len(content))-offset {
		length = int64(len(content)) - offset
	}
	return (&faulty{content: content}).NewRangeReader(ctx, key, offset, length, o)
}

func (d *deaf) Delete(_ context.Context, key string, _ *driver.DeleteOptions) error {
	delete(d.objects, key)
	return nil
}

type deafWriter struct {
	bytes.Buffer
	bucket *deaf
	key    string
}

func (w *deafWriter) Close() error {
	w.bucket.objects[w.key] = w.Bytes()
	if w.key == w.bucket.lost {
		return errBroke
	}
	return nil
}
