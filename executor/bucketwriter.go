package executor

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/program"
)

// A bucketWriter is where a StateWriter writes whose directory is the URL of a bucket. The new state replaces the older one when its list of files is written.
type bucketWriter struct {
	ctx   context.Context // of the job, or of the process
	where string
	files *bucket.Whole
}

// openBucket opens the folder at a URL for a StateWriter, if the listener allows that.
func (f Files) openBucket(where string) (*bucketWriter, error) {
	if err := f.allowed.CheckWrite(where); err != nil {
		return nil, err
	}
	files, err := bucket.OpenWhole(f.context(), where)
	if err != nil {
		return nil, err
	}
	return &bucketWriter{f.context(), where, files}, nil
}

// save writes one file of the new state.
func (b *bucketWriter) save(name string, write func(io.Writer) error, overwrite bool) error {
	if b.files.Has(filepath.ToSlash(name)) && !overwrite {
		return existing(b.where + "/" + name)
	}
	return b.files.Create(b.ctx, name, write)
}

// commit makes the new state count, with a Progress that is known or not.
func (b *bucketWriter) commit(p *Progress) error {
	if p != nil {
		text, err := encodeProgress(*p)
		if err != nil {
			return err
		}
		if err := b.save(ProgressFile, func(to io.Writer) error { _, err := to.Write(text); return err }, true); err != nil {
			return err
		}
	}
	return b.files.Commit(b.ctx)
}

// prepareBucket is PrepareSave for a URL.
func (f Files) prepareBucket(where string, p *program.Program) error {
	failed := func(err error) error {
		if errors.Is(err, fault.Denied) {
			return err
		}
		return fault.E(fault.KindOf(err), fault.At("cannot save to "+where), fault.Cause(err), fault.Hint("name a folder of a bucket that can be written to"))
	}
	b, err := f.openBucket(where)
	if err != nil {
		return failed(err)
	}
	err = CheckNames(p)
	if err == nil {
		err = b.files.Probe(b.ctx)
	}
	if err = errors.Join(err, b.files.Close(b.ctx)); err != nil {
		return failed(err)
	}
	return nil
}
