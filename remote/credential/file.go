package credential

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"time"

	"github.com/edl-go/edl/fault"
)

// What names files in the environment: that of the authority, and that of credentials of a user.
const (
	fileEnv = "EDL_AUTHORITY"
	userEnv = "EDL_CREDENTIALS"
)

// Named reports whether the environment names the file of the authority.
func Named() bool { return os.Getenv(fileEnv) != "" }

// File is where the authority of this user is: where the environment variable EDL_AUTHORITY says, or else in the folder where the system keeps state of
// programs. Listeners and clients of one user use the same file, so they know each other. To speak to a listener on another machine, or to offer a machine to it,
// copy the file there.
func File() (string, error) {
	if file := os.Getenv(fileEnv); file != "" {
		return file, nil
	}
	folder, err := Folder()
	if err != nil {
		return "", fault.E(fault.InvalidArgument, fault.At("authority"), fault.Got("a user without a home folder"),
			fault.Want("the environment variable "+fileEnv+", which names a file"))
	}
	return filepath.Join(folder, "authority.pem"), nil
}

// Folder is where EDL keeps the state of this user: below the folder where the system keeps state of programs. It may be absent.
func Folder() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "edl"), nil
}

// UserFile is the file that the environment variable EDL_CREDENTIALS names; empty: none.
func UserFile() string { return os.Getenv(userEnv) }

// OpenUser reads the credentials in the file that the environment variable EDL_CREDENTIALS names: those of a user who does not have the authority of the
// listener. It returns nil if there is no such variable.
func OpenUser() (*Credentials, error) {
	file := UserFile()
	if file == "" {
		return nil, nil
	}
	b, err := read(file, "credentials that were made for you", "its owner writes them with \"edl credentials NAME -o FILE\"")
	if err != nil {
		return nil, err
	}
	c, err := Parse(b)
	if err != nil {
		return nil, inFile(file, err, "ask its owner for another one: \"edl credentials NAME -o FILE\" writes it")
	}
	if time.Now().After(c.Expires()) {
		return nil, inFile(file, expired(c.name, c.held.Load().own.Leaf), "")
	}
	return c, nil
}

// UserName is the name of the user whose process this is, or a word for a user without a name.
func UserName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown"
}

// Open reads the authority in a file. A file that others may read is refused.
func Open(file string) (*Authority, error) {
	b, err := read(file, "the authority of the listener", "\"edl listen\" makes one; for a listener of another machine or user, let its user write credentials for you with \"edl credentials NAME -o FILE\", and name that file in EDL_CREDENTIALS")
	if err != nil {
		return nil, err
	}
	a, err := ParseAuthority(b)
	return a, inFile(file, err, "put a whole copy of the file in its place, or remove it: \"edl listen\" then makes another authority, which knows no credentials of this one")
}

// inFile says in which file the bytes were that do not parse, and what to do.
func inFile(file string, err error, hint string) error {
	if err == nil {
		return nil
	}
	return fault.E(fault.KindOf(err), fault.At(file), fault.Cause(err), fault.Hint(hint))
}

// read reads a file that only this user may read.
func read(file, want, hint string) ([]byte, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.E(fault.NotFound, fault.At(file), fault.Got("no file"), fault.Want(want), fault.Hint(hint))
	}
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, file, err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At(file), fault.Gotf("mode %v: other users may read or change it", info.Mode().Perm()), fault.Want("mode 0600"),
			fault.Hint("run chmod 600 "+file))
	}
	if info.Size() > maxPEM {
		return nil, fault.E(fault.TooLarge, fault.At(file), fault.Gotf("%d bytes", info.Size()), fault.Wantf("at most %d", maxPEM))
	}
	b, err := os.ReadFile(file)
	return b, fault.Wrap(fault.InvalidArgument, file, err)
}

// OpenOrMake is Open, and makes an authority where there is no file. Of several processes that do this at once, one makes it.
func OpenOrMake(file string) (*Authority, error) {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return Open(file)
	}
	a, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	if err := publish(file, a.PEM()); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fault.Wrap(fault.InvalidArgument, file, err)
	}
	return Open(file)
}

// publish makes a file that is whole whenever it is there. It fails with fs.ErrExist if there is one.
func publish(file string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return place(file, b, os.Link)
}

// replace puts a file in the place of another one. Whoever reads it finds one of the two.
func replace(file string, b []byte) error { return place(file, b, os.Rename) }

// place writes a file of mode 0600 under another name, and gives it its name when all of it is on the disk.
func place(file string, b []byte, name func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return name(f.Name(), file)
}
