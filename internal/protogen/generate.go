package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// The plugins, by the names that `go tool` knows them by.
const (
	messagePlugin = "protoc-gen-go"
	servicePlugin = "protoc-gen-go-grpc"
)

// generate compiles sources, which are paths from the root of the module. It returns the generated files by their slash-separated path from the
// root.
func generate(ctx context.Context, module module, sources []string) (map[string][]byte, error) {
	if len(sources) == 0 {
		return map[string][]byte{}, nil
	}
	files, err := compile(ctx, module.Dir, sources)
	if err != nil {
		return nil, err
	}
	if err := checkPlaces(module, files); err != nil {
		return nil, err
	}
	generated := make(map[string][]byte)
	for _, step := range []struct {
		plugin string
		files  []string
	}{
		{messagePlugin, sources},
		{servicePlugin, withServices(files)},
	} {
		if len(step.files) == 0 {
			continue
		}
		request := &pluginpb.CodeGeneratorRequest{
			FileToGenerate: step.files,
			Parameter:      proto.String("module=" + module.Path),
			ProtoFile:      descriptors(files),
		}
		if err := runPlugin(ctx, step.plugin, request, generated); err != nil {
			return nil, err
		}
	}
	return generated, nil
}

// compile parses and links sources and their imports, with comments. Errors carry file, line and column.
func compile(ctx context.Context, root string, sources []string) (linker.Files, error) {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			ImportPaths: []string{root},
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	return compiler.Compile(ctx, sources...)
}

// checkPlaces checks that the Go code of each file goes next to it.
func checkPlaces(module module, files linker.Files) error {
	for _, file := range files {
		options, _ := file.Options().(*descriptorpb.FileOptions)
		want := module.Path + "/" + path.Dir(file.Path())
		if got := options.GetGoPackage(); got != want {
			return fmt.Errorf("%s: option go_package is %q, want %q", file.Path(), got, want)
		}
	}
	return nil
}

// withServices returns the paths of the files that declare a service.
func withServices(files linker.Files) []string {
	var paths []string
	for _, file := range files {
		if file.Services().Len() > 0 {
			paths = append(paths, file.Path())
		}
	}
	return paths
}

// descriptors returns the files and all that they import, each after its own imports. Plugins rely on this order.
func descriptors(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var ordered []*descriptorpb.FileDescriptorProto
	seen := make(map[string]bool)
	var visit func(file protoreflect.FileDescriptor)
	visit = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			visit(file.Imports().Get(i).FileDescriptor)
		}
		ordered = append(ordered, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range files {
		visit(file)
	}
	return ordered
}

// runPlugin sends request to a plugin and adds the files of its answer to generated. The plugin is a tool of the module of the working directory.
func runPlugin(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest, generated map[string][]byte) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s: encode its request: %w", plugin, err)
	}
	var problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stderr = &problems
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", plugin, err, problems.Bytes())
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return fmt.Errorf("%s: decode its response: %w", plugin, err)
	}
	if response.Error != nil {
		return fmt.Errorf("%s: %s", plugin, response.GetError())
	}
	for _, file := range response.GetFile() {
		generated[file.GetName()] = []byte(file.GetContent())
	}
	return nil
}

// changes are the writes and removals that bring the files on disk up to date. Paths are slash-separated, from the root of the module.
type changes struct {
	write map[string][]byte // missing or different files and their right content
	stale []string          // generated files whose source is gone
}

// compare returns the changes that make the .pb.go files below root equal to the generated ones.
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

// outOfDate returns an error that names every file that would change, nil if there is none.
func (c changes) outOfDate() error {
	names := slices.Sorted(maps.Keys(c.write))
	names = append(names, c.stale...)
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("not up to date, run `go generate ./proto`:\n\t%s", strings.Join(names, "\n\t"))
}

// apply writes and removes files below root.
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
