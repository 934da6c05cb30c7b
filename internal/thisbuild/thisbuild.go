// Package thisbuild names the build that a process runs, so that messages between two builds can name both.
package thisbuild

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
)

// idLength is how much of the build id of Go a name has, in bytes: enough to tell builds of a machine apart.
const idLength = 8

// Name is the version of the binary, and where the tools of Go have left it there also the begin of its build id: "v0.3.1 (k2Xw1_Qh)" or "devel (k2Xw1_Qh)". Builds of
// different sources, flags or systems have different names. A binary that says nothing of itself is "devel".
var Name = sync.OnceValue(func() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	path, err := os.Executable()
	if err != nil {
		return version
	}
	if id := idOf(path); id != "" {
		version += " (" + id + ")"
	}
	return version
})

// maxNote bounds what is read of the note with the build id, in bytes.
const maxNote = 4 << 10

// idOf returns the first bytes of the hash of the content of a binary; empty: the file has none. The build id is four hashes with slashes between them. The last one is the hash of the content. Source: cmd/internal/buildid of Go.
func idOf(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	note := f.Section(".note.go.buildid")
	if note == nil {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(note.Open(), maxNote))
	const head = 16 // three numbers of 4 bytes, and "Go" with two zeros
	if err != nil || len(b) < head {
		return ""
	}
	id := string(bytes.TrimRight(b[head:], "\x00"))
	id = id[strings.LastIndexByte(id, '/')+1:]
	return id[:min(len(id), idLength)]
}
