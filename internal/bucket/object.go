package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/edl-go/edl/fault"
	"gocloud.dev/blob"
)

const (
	tailBytes = 64 << 10 // the end of an object, which has the index of a record file, is read at once
	maxRange  = 16 << 20 // of one request
	maxGap    = 1 << 20  // bytes between two reads that are dropped rather than another request made; at most as many as the last answer had
	tries     = 3        // to continue after a connection broke in an answer; the driver repeats requests
	patience  = time.Minute
)

// An Object reads one object of a bucket. It is an io.ReaderAt for one goroutine at a time. Reads that follow each other, with small gaps, share one answer
// of the store. The longer the run of reads, the longer the next answer. A reader that knows how far it will read says so with Expect.
type Object struct {
	ctx      context.Context
	bucket   *blob.Bucket
	key      string
	size     int64
	patience time.Duration // longest wait for a byte

	tail     []byte // the end of the object, after the first read there
	expected int64  // the offset up to which everything will be read
	answer   answer
}

// Open returns the object at a URL. The caller knows its size. Open sends no request. The object is valid until ctx ends. The caller closes it.
func (c *Cache) Open(ctx context.Context, name string, size int64) (*Object, error) {
	a, err := parse(name, false)
	if err != nil {
		return nil, err
	}
	b, err := c.bucket(ctx, a)
	if err != nil {
		return nil, err
	}
	return &Object{ctx: ctx, bucket: b, key: a.key, size: size, patience: patience}, nil
}

// Size returns the size of Open.
func (o *Object) Size() int64 { return o.size }

// Expect says that all bytes from the next read up to an offset will be read. The answer to that read then has all of them, if they are at most maxRange.
func (o *Object) Expect(to int64) { o.expected = min(to, o.size) }

// ReadAt implements io.ReaderAt. Its errors are faults that do not name the object.
func (o *Object) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset < 0 || offset >= o.size {
		return 0, io.EOF
	}
	if left := o.size - offset; int64(len(p)) > left {
		p, err = p[:left], io.EOF
	}
	if len(p) == 0 {
		return 0, err
	}
	if n, failed := o.fill(p, offset); failed != nil {
		return n, failed
	}
	return len(p), err
}

// fill reads all of p.
func (o *Object) fill(p []byte, offset int64) (int, error) {
	if begin := max(0, o.size-tailBytes); offset >= begin {
		if o.tail == nil {
			tail := make([]byte, o.size-begin)
			if _, err := o.read(tail, begin); err != nil {
				return 0, err
			}
			o.tail = tail
		}
		return copy(p, o.tail[offset-begin:]), nil
	}
	return o.read(p, offset)
}

// read fills p from the open answer or from new ones.
func (o *Object) read(p []byte, offset int64) (n int, err error) {
	for failures := 0; n < len(p); {
		var got int
		if got, err = o.readSome(p[n:], offset+int64(n)); got > 0 {
			n, failures = n+got, 0
		}
		if err == nil {
			continue
		}
		o.Close()
		named := Failed(o.ctx, "", err)
		if failures++; failures == tries || fault.KindOf(named) != fault.Unavailable {
			return n, named
		}
	}
	return n, nil
}

// Close ends the open answer. The object may be read again.
func (o *Object) Close() error {
	a := o.answer
	o.answer = answer{}
	if a.cancel == nil {
		return nil
	}
	defer a.cancel(nil)
	if a.stream == nil {
		return nil
	}
	return a.stream.Close()
}

// An answer is a range of the object that the store sends.
type answer struct {
	stream   *blob.Reader
	from, to int64
	at       int64 // offset of the next byte
	ctx      context.Context
	cancel   context.CancelCauseFunc
}

// readSome reads the next bytes from the open answer, or from a new one.
func (o *Object) readSome(p []byte, offset int64) (int, error) {
	a := &o.answer
	near := a.stream != nil && a.at <= offset && offset-a.at <= min(maxGap, a.to-a.from)
	if !near || offset >= a.to {
		size := max(int64(len(p)), min(maxRange, o.expected-offset))
		if near {
			size = max(size, min(maxRange, 2*(a.to-a.from)))
		}
		o.Close()
		if err := o.ask(offset, min(o.size, offset+size)); err != nil {
			return 0, err
		}
	}
	for a.at < offset {
		if err := o.drop(min(offset-a.at, 64<<10)); err != nil {
			return 0, err
		}
	}
	defer o.limit()()
	n, err := a.stream.Read(p[:min(int64(len(p)), a.to-a.at)])
	a.at += int64(n)
	if n > 0 || err == nil {
		return n, nil // the next read returns the error again
	}
	return 0, o.because(unexpected(err))
}

// drop skips n bytes of the open answer.
func (o *Object) drop(n int64) error {
	defer o.limit()()
	n, err := io.CopyN(io.Discard, o.answer.stream, n)
	o.answer.at += n
	if err != nil {
		return o.because(unexpected(err))
	}
	return nil
}

// unexpected is the error of an answer that ends before the end of its range.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ask opens an answer of bytes [from, to).
func (o *Object) ask(from, to int64) error {
	ctx, cancel := context.WithCancelCause(o.ctx)
	o.answer = answer{from: from, to: to, at: from, ctx: ctx, cancel: cancel}
	defer o.limit()()
	stream, err := o.bucket.NewRangeReader(ctx, o.key, from, to-from, nil)
	if err != nil {
		return o.because(err)
	}
	o.answer.stream = stream
	return nil
}

var errStalled = errors.New("the store has sent nothing")

// limit ends the answer if the operation that begins now takes too long. The returned function ends the limit.
func (o *Object) limit() func() bool {
	cancel := o.answer.cancel
	return time.AfterFunc(o.patience, func() { cancel(fmt.Errorf("%w for %v", errStalled, o.patience)) }).Stop
}

// because adds the reason why an answer was ended to the error of the driver.
func (o *Object) because(err error) error {
	if cause := context.Cause(o.answer.ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
