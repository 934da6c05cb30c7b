package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sourceRoot is the folder, from the module's root, that is searched for .proto
// files and owns every .pb.go file below it.
const sourceRoot = "proto"

// module is the Go module that code is generated for.
type module struct {
	Path string // import path of the module's root
	Dir  string // absolute folder of go.mod
}

// findModule returns the module around the working directory.
func findModule(ctx context.Context) (module, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return module{}, fmt.Errorf("find the module around the working directory: %w", err)
	}
	var found module
	if err := json.Unmarshal(out, &found); err != nil {
		return module{}, fmt.Errorf("read the answer of go list -m: %w", err)
	}
	return found, nil
}

// findSources returns the .proto files of the module, sorted, as slash-separated
// paths from its root.
func findSources(root string) ([]string, error) {
	return findFiles(root, ".proto")
}

// findFiles lists the files under root's sourceRoot whose names end in suffix.
func findFiles(root, suffix string) ([]string, error) {
	var found []string
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, sourceRoot, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() && strings.HasSuffix(name, suffix) {
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("search %s: %w", filepath.Join(root, sourceRoot), err)
	}
	return found, nil
}
