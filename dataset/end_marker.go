package dataset

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/dataset/internal/bucket"
	"github.com/edl-go/edl/fault"
)

// EndMarker is the name of the file that says that no more files come, in the folder of a glob: in front of the last slash before anything in
// the glob that matches more than itself.
const EndMarker = "_END"

// ended reports whether every glob has its marker.
func (f *Follower) ended(ctx context.Context) (bool, error) {
	for _, glob := range f.globs {
		there, err := f.marked(ctx, glob)
		if err != nil || !there {
			return false, err
		}
	}
	return len(f.globs) > 0, nil
}

func (f *Follower) marked(ctx context.Context, glob string) (bool, error) {
	var err error
	if bucket.IsURL(glob) {
		var marker string
		if marker, err = bucket.Beside(glob, EndMarker); err == nil {
			_, err = f.sources.buckets.Stat(ctx, marker)
		}
	} else {
		folder, _ := filepath.Split(bucket.Literal(glob))
		marker := filepath.Join(folder, EndMarker)
		if _, err = os.Stat(marker); err != nil {
			err = fault.File(fault.Unavailable, marker, err)
		}
	}
	if errors.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}
