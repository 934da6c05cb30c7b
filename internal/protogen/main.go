// Protogen writes the Go code of every .proto file under proto/, beside its
// source. It needs nothing but the Go toolchain: the compiler of .proto files is
// a library, and the two plugins that write Go are tools pinned in go.mod.
//
// Usage, anywhere inside the module:
//
//	go run ./internal/protogen          write what changed, remove what is stale
//	go run ./internal/protogen -check   write nothing; exit 1 and name each file
//	                                    that differs from what would be written
//
// A file's import path is its path from the module's root, as in
// import "proto/framework/framework.proto", and its go_package option must be
// the import path of its own folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
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

// run generates for the module around the working directory and then either
// compares with the files on disk or replaces them.
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
