// Package cachedir keeps the layout engine's cache of compiled code where nobody else can write.
//
// The engine compiles itself when its package is initialized, into a directory of a fixed name among temporary files, and trusts what it
// finds there; on a shared machine another user could have put code into it. It has no setting for that. But it asks os.TempDir,
// and packages are initialized in the order of their import paths as far as their imports allow: this one, which needs no more than the
// engine does and whose path comes before "github.com/goccy", always before the engine. So TMPDIR points to a directory of this user's
// while the engine is initialized, and Restore, called when package draw is, puts it back.
package cachedir

import (
	"os"
	"path/filepath"
	"strconv"
)

const variable = "TMPDIR"

var (
	before string
	wasSet bool
	moved  bool
)

func init() {
	dir, ok := private()
	if !ok {
		return
	}
	before, wasSet = os.LookupEnv(variable)
	moved = os.Setenv(variable, dir) == nil
}

// Restore gives TMPDIR the value that it had when the process started.
func Restore() {
	switch {
	case !moved:
	case wasSet:
		_ = os.Setenv(variable, before)
	default:
		_ = os.Unsetenv(variable)
	}
	moved = false
}

// private returns a directory that only this user can write to, making it if need be.
func private() (string, bool) {
	base, err := os.UserCacheDir()
	dir := filepath.Join(base, "edl")
	if err != nil || os.MkdirAll(dir, 0o700) != nil {
		dir = filepath.Join(os.TempDir(), "edl-cache-"+strconv.Itoa(os.Getuid()))
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return "", false
		}
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return "", false
	}
	// Only the owner may change the mode, so this fails for a directory that someone else has put there.
	return dir, os.Chmod(dir, 0o700) == nil
}
