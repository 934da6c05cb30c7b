package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// changes is what it takes to bring the files on disk up to date. Paths are
// slash-separated, from the module's root.
type changes struct {
	write map[string][]byte // missing or different files and their right content
	stale []string          // generated files whose source is gone
}

// compare returns the changes that turn the .pb.go files under root into
// exactly the generated ones.
func compare(root string, generated map[string][]byte) (changes, error) {
	needed := changes{write: make(map[string][]byte)}
	for name, content := range generated {
		onDisk, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return changes{}, err
		}
		if err != nil || !bytes.Equal(onDisk, content) {
			needed.write[name] = content
		}
	}
	existing, err := findFiles(root, ".pb.go")
	if err != nil {
		return changes{}, err
	}
	for _, name := range existing {
		if _, ok := generated[name]; !ok {
			needed.stale = append(needed.stale, name)
		}
	}
	return needed, nil
}

// outOfDate returns an error that names every file that would change, or nil
// when there is none.
func (c changes) outOfDate() error {
	names := slices.Sorted(maps.Keys(c.write))
	names = append(names, c.stale...)
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("not up to date, run `go generate ./proto`:\n\t%s", strings.Join(names, "\n\t"))
}

// apply writes and removes files under root.
func (c changes) apply(root string) error {
	for name, content := range c.write {
		target := filepath.Join(root, filepath.FromSlash(name))
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return err
		}
	}
	for _, name := range c.stale {
		if err := os.Remove(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}
