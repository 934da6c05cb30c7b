package program

import (
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// Line returns the file:line of user code that built the op, or "" when the program does not say. For a program saved by
// Fluid's Python API it is the innermost line of the recorded stack outside of that API.
func (op *Op) Line() string {
	stack, _ := op.Strs(AttrCallstack)
	if len(stack) == 1 {
		return stack[0]
	}
	for _, frame := range stack {
		if file, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(frame), "File \""), "\", line "); ok && !strings.Contains(file, "paddle/") {
			line, _, _ := strings.Cut(rest, ",")
			return filepath.Base(file) + ":" + strings.TrimSpace(line)
		}
	}
	return ""
}

// SetLine records where user code built the op.
func (op *Op) SetLine(line string) {
	if line != "" {
		op.SetAttr(AttrCallstack, []string{line})
	}
}

// CallerLine returns the nearest caller outside of the packages of this module whose import path starts with one of the given prefixes, as
// directory/file:line. The directory is one level only, so that a program built from the same sources is the same on every
// machine.
func CallerLine(inside ...string) string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if frame.File != "" && !within(frame, inside) {
			return fmt.Sprintf("%s/%s:%d", filepath.Base(filepath.Dir(frame.File)), filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// module is the import path of the folder that root is.
const module = "github.com/edl-go/edl"

var root = func() string {
	_, file, _, _ := runtime.Caller(0)
	return path.Dir(path.Dir(file))
}()

// within reports whether the source of a frame belongs to one of the packages; their own tests count as user code. The file
// decides, because a closure of a package that was inlined into user code bears the name of the user's function.
func within(frame runtime.Frame, inside []string) bool {
	folder, ok := strings.CutPrefix(path.Dir(frame.File), root)
	if !ok || strings.HasSuffix(frame.File, "_test.go") {
		return false
	}
	for _, prefix := range inside {
		if rest, ok := strings.CutPrefix(module+folder, prefix); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// FaultSource implements fault.Source.
func (op *Op) FaultSource() (opType, line string) { return op.Type, op.Line() }
