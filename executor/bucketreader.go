package executor

import (
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
)

// FetchState copies the state that was saved to the URL of a bucket to a directory, which it makes, and checks the sums of the files. It fails with fault.Denied where the
// job may not read the URL, and with fault.NotFound where no state is.
func (f Files) FetchState(where, dir string) (err error) {
	if err := f.allowed.CheckRead(where); err != nil {
		return err
	}
	files, err := bucket.OpenWhole(f.context(), where)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close(f.context())) }()
	err = files.Fetch(f.context(), dir)
	if errors.Is(err, fault.NotFound) {
		return fault.E(fault.NotFound, fault.At(where), fault.Got("no saved model"), fault.Want("a URL that --save has written to"), fault.Cause(err))
	}
	return err
}
