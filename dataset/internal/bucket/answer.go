package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"
)

// An answer is a range of the object that the store sends.
type answer struct {
	stream   *blob.Reader
	from, to int64
	at       int64 // where it goes on
	ctx      context.Context
	cancel   context.CancelCauseFunc
}

// readSome reads what comes next of the answer that is open, or of a new one.
func (o *Object) readSome(p []byte, offset int64) (int, error) {
	a := &o.answer
	if a.stream == nil || a.at != offset || a.at == a.to {
		size := int64(len(p))
		if a.stream != nil && a.at == offset {
			size = max(size, min(maxRange, 2*(a.to-a.from)))
		}
		o.Close()
		if err := o.ask(offset, min(o.size, offset+size)); err != nil {
			return 0, err
		}
	}
	defer o.limit()()
	n, err := a.stream.Read(p[:min(int64(len(p)), a.to-a.at)])
	a.at += int64(n)
	if n > 0 || err == nil {
		return n, nil // an error comes again
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // in front of the end of the range
	}
	return 0, o.because(err)
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

// limit ends the answer when what begins now takes too long. What it returns ends the limit.
func (o *Object) limit() func() bool {
	cancel := o.answer.cancel
	return time.AfterFunc(o.patience, func() { cancel(fmt.Errorf("%w for %v", errStalled, o.patience)) }).Stop
}

// because adds why an answer was ended to the error that the driver made of it.
func (o *Object) because(err error) error {
	if cause := context.Cause(o.answer.ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
