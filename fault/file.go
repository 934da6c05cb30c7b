package fault

import (
	"errors"
	"io/fs"
	"os"
)

// File gives an error of the file system its place and kind: NotFound where there is no such file, else the given one. The message names the path
// once, as the caller knows it. It returns nil when err is nil.
func File(kind Kind, path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		kind = NotFound
	}
	var at *fs.PathError
	var between *os.LinkError
	switch {
	case errors.As(err, &at):
		err = at.Err
	case errors.As(err, &between):
		err = between.Err
	}
	return Wrap(kind, path, err)
}
