package edlcmd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/edl-go/edl/fault"
)

// maxNeighbours bounds the names of a folder that are compared with a wrong one.
const maxNeighbours = 1000

// pathFault adds to the error of a path that the command line names what to do: another name that is there, or where relative paths begin. Errors of other paths stay as they are.
func pathFault(args []string, err error) error {
	missing, blocked := errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR)
	if !missing && !blocked {
		return err
	}
	text := err.Error()
	at := slices.IndexFunc(args, func(arg string) bool { return text != "" && strings.HasPrefix(text, valueOf(arg)+": ") })
	if at < 0 || valueOf(args[at]) == "" {
		return err
	}
	path := valueOf(args[at])
	hint := fault.Hint("a relative path starts in the working directory")
	if blocked {
		hint = fault.Hint("name a directory, or a path that does not lead through a file")
	} else if meant := neighbour(path); meant != "" {
		hint = fault.Hint("did you mean " + fault.Quote(meant) + "?")
	}
	return fault.E(fault.KindOf(err), fault.Cause(err), hint)
}

// valueOf is what an argument says, without the name of its flag.
func valueOf(arg string) string {
	if name, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(name, "-") {
		return value
	}
	return arg
}

// neighbour returns the path in the same folder whose name is closest to that of a path that is not there; "" for none.
func neighbour(path string) string {
	dir, name := filepath.Split(path)
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return ""
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNeighbours)
	if err != nil {
		return ""
	}
	slices.Sort(names)
	if meant := fault.Closest(name, names); meant != "" {
		return dir + meant
	}
	return ""
}
