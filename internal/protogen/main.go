// Protogen writes the Go code of every .proto file below proto/, next to its source. It needs only the Go toolchain: the compiler of .proto files
// is a library, and the two plugins that write Go are tools with versions in go.mod.
//
// Usage, anywhere in the module:
//
//	go run ./internal/protogen          write what changed, remove what is stale
//	go run ./internal/protogen -check   write nothing; exit 1 and name each file
//	                                    that differs from what would be written
//
// The import path of a file is its path from the root of the module, as in import "proto/framework/framework.proto". Its go_package option must be
// the import path of its folder.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "write nothing; exit 1 and name the files that are not up to date")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		stop()
		os.Exit(1)
	}
}

// run generates for the module of the working directory. Then it compares with the files on disk, or replaces them.
func run(ctx context.Context, check bool) error {
	module, err := findModule(ctx)
	if err != nil {
		return err
	}
	sources, err := findSources(module.Dir)
	if err != nil {
		return err
	}
	generated, err := generate(ctx, module, sources)
	if err != nil {
		return err
	}
	changes, err := compare(module.Dir, generated)
	if err != nil {
		return err
	}
	if check {
		return changes.outOfDate()
	}
	return changes.apply(module.Dir)
}

// sourceRoot is the folder, from the root of the module, that has the .proto files and owns every .pb.go file below it.
const sourceRoot = "proto"

// module is the Go module to generate code for.
type module struct {
	Path string // import path of the module's root
	Dir  string // absolute folder of go.mod
}

// findModule returns the module of the working directory.
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
