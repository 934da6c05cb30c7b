package executor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/diskfree"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
)

// StateBytes returns how many bytes the files of the persistable tensors of p have, as far as its declarations tell. Each file counts one block of the
// file system more. A table that grows counts only that: nobody knows how many rows will be in use.
func StateBytes(p *program.Program) int64 {
	var total int64
	grown := sparse.Grown(p)
	for _, name := range Persistables(p) {
		if v, _ := p.Global().Var(name); !grown[name] {
			total += declaredBytes(v)
		}
		if total += diskBlock; total > mostBytes {
			return mostBytes
		}
	}
	return total
}

const (
	diskBlock = 4096
	mostBytes = math.MaxInt64 / 2
)

// declaredBytes is how many bytes the elements of a variable have, as far as its declaration tells, and at most mostBytes.
func declaredBytes(v *program.Var) int64 {
	bytes := int64(v.DType.Size())
	for _, d := range v.Dims {
		if d = max(d, 0); d > 0 && bytes > math.MaxInt32*int64(diskBlock)/d {
			return mostBytes
		}
		bytes *= d
	}
	return bytes
}

// free tells how much a disk can take; a test replaces it.
var free = diskfree.Of

// PrepareSave checks, before a training, that the state of p can be saved to dir: it makes dir, finishes or removes what an interrupted Save has left,
// writes and renames a file, and compares the bytes that a Save needs with those that are free. While a Save replaces a state, both have their room.
// What trains for hours should not learn this at its end. A disk
// without room for it keeps no directory that was not there before.
func PrepareSave(dir string, p *program.Program) error { return Files{}.PrepareSave(dir, p) }

// PrepareSave is the function PrepareSave.
func (f Files) PrepareSave(dir string, p *program.Program) error {
	if err := bucket.CheckPlace(dir); err != nil {
		return err
	}
	if dir = bucket.LocalPath(dir); bucket.IsURL(dir) {
		return f.prepareBucket(dir, p)
	}
	if err := f.allowed.CheckWrite(dir); err != nil {
		return err
	}
	if err := CheckNames(p); err != nil {
		return fault.E(fault.KindOf(err), fault.At("cannot save to "+dir), fault.Cause(err))
	}
	_, before := os.Stat(dir)
	err := f.tryToSave(dir)
	if err == nil {
		need := StateBytes(p)
		if has, known := free(dir); known && has < need {
			if errors.Is(before, fs.ErrNotExist) {
				_ = os.Remove(dir) // made for the check; empty
			}
			return fault.E(fault.TooLarge, fault.At("cannot save to "+dir), fault.Gotf("%d bytes free", has),
				fault.Wantf("%d for the variables of the program", need), fault.Hint("free some, or name a directory on another disk"))
		}
		return nil
	}
	if errors.Is(err, fault.Denied) {
		return err
	}
	cause := errors.Unwrap(err)
	if cause == nil {
		cause = err
	}
	hint := "name a directory that can be made and written to"
	switch {
	case errors.Is(err, syscall.EMFILE):
		hint = "raise the limit of open files, with ulimit -n"
	case errors.Is(err, fault.Unavailable):
		hint = "free some space, or name a directory on another disk"
	}
	return fault.E(fault.KindOf(err), fault.At("cannot save to "+dir), fault.Cause(cause), fault.Hint(hint))
}

// tryToSave does what a Save does in dir, but for its files.
func (f Files) tryToSave(dir string) error {
	w, err := f.NewStateWriter(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Begin(); err != nil {
		return err
	}
	if err := w.stage("probe", func(to io.Writer) error {
		_, err := fmt.Fprintln(to, "This file tests if a Save can write here.")
		return err
	}); err != nil {
		return err
	}
	if err := w.root.Rename(w.staged("probe"), w.staged("renamed")); err != nil {
		return saveFault(w.root, "probe", err)
	}
	return nil
}
