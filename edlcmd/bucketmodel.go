package edlcmd

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
)

// fetchModel copies the model at a URL, which --save or --export has written, to a directory of this machine that ends with done. found is false where the place holds
// no model: it may have checkpoints.
func fetchModel(ctx context.Context, where string) (dir string, found bool, done func(), err error) {
	whole, err := bucket.OpenWhole(ctx, where)
	if err != nil {
		return "", false, nil, err
	}
	defer func() { err = errors.Join(err, whole.Close(ctx)) }()
	if _, err := whole.Index(ctx); err != nil {
		if errors.Is(err, fault.NotFound) {
			return "", false, nil, nil
		}
		return "", false, nil, err
	}
	top, err := os.MkdirTemp("", "edl-model-")
	if err != nil {
		return "", false, nil, fileFault(os.TempDir(), err)
	}
	done = func() { os.RemoveAll(top) }
	name := "model"
	if u, err := url.Parse(where); err == nil && filepath.IsLocal(path.Base(u.Path)) {
		name = path.Base(u.Path) // messages show it
	}
	dir = filepath.Join(top, name)
	if err := whole.Fetch(ctx, dir); err != nil {
		done()
		return "", false, nil, err
	}
	return dir, true, done, nil
}

// localModel returns a path of this machine for a model, which may be at a URL. done is called when nothing reads it any more.
func localModel(ctx context.Context, where string) (local string, done func(), err error) {
	if where = bucket.LocalPath(where); !bucket.IsURL(where) {
		return where, func() {}, nil
	}
	local, found, done, err := fetchModel(ctx, where)
	if err == nil && !found {
		err = fault.E(fault.NotFound, fault.At(where), fault.Got("no model"), fault.Want("a URL that --save or --export has written to"))
	}
	return local, done, err
}
