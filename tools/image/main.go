// Command image makes the image of edl: an OCI archive for several platforms, from nothing but this repository. It needs no Docker, and runs nothing as root.
//
//	go -C tools/image run . -out ../../bin/edl-image.tar
//
// The image has the static binary, the roots of certificates of public servers (for buckets), and the bill of materials of the binary; no shell, no system. It runs as the user 65532. Two builds
// of a commit have the same digest: files are in a fixed order and have the time of the commit. layer.go has the files, and archive.go writes them.
package main

import (
	"context"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A job is what an image is made of.
type job struct {
	dir       string // of the module with the package
	pkg       string // of the command
	platforms []string
	scratch   string // folder for binaries
	log       func(format string, args ...any)
}

func main() {
	out := flag.String("out", "edl-image.tar", "write the archive to this `FILE`")
	tag := flag.String("tag", "edl:latest", "`NAME` of the image in the archive")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64", "make the image for these `PLATFORMS`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, *tag, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, tag string, platforms []string) error {
	scratch, err := os.MkdirTemp("", "edl-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	j := job{dir: filepath.Join("..", ".."), pkg: "./cmd/edl", platforms: platforms, scratch: scratch, log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	index, err := j.make(ctx)
	if err != nil {
		return err
	}
	if err := writeArchive(out, index, tag); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err == nil {
		_, err = fmt.Println(digest)
	}
	return err
}

// make makes the image of all platforms.
func (j job) make(ctx context.Context) (v1.ImageIndex, error) {
	host, err := j.build(ctx, runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range j.platforms {
		image, err := j.image(ctx, host, platform)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", platform, err)
		}
		system, machine, _ := strings.Cut(platform, "/")
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: system, Architecture: machine}}})
	}
	return index, nil
}

// build builds the command for a platform, and returns the path of the binary.
func (j job) build(ctx context.Context, platform string) (string, error) {
	system, machine, ok := strings.Cut(platform, "/")
	if !ok {
		return "", fmt.Errorf("%q is no platform such as linux/amd64", platform)
	}
	binary := filepath.Join(j.scratch, system+"-"+machine)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	j.log("building %s", platform)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", binary, j.pkg)
	cmd.Dir = j.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine, "GOWORK=off")
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, b)
	}
	return binary, nil
}

// image makes the image of one platform. host is a binary for this machine, which reads what the other is made of.
func (j job) image(ctx context.Context, host, platform string) (v1.Image, error) {
	binary, err := j.build(ctx, platform)
	if err != nil {
		return nil, err
	}
	sbom, err := exec.CommandContext(ctx, host, "version", "--sbom", "--binary", binary).Output()
	if err != nil {
		return nil, fmt.Errorf("the bill of materials: %w", err)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	built := builtOf(info)
	layer, err := layerOf(built.at, files(b, sbom))
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: layer,
		History: v1.History{Created: v1.Time{Time: built.at}, CreatedBy: "github.com/edl-go/edl/tools/image"}})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	system, machine, _ := strings.Cut(platform, "/")
	file.OS, file.Architecture, file.Created = system, machine, v1.Time{Time: built.at}
	file.Config = v1.Config{User: "65532:65532", Entrypoint: []string{command}, WorkingDir: "/", Env: []string{"PATH=" + filepath.Dir(command), "HOME=/tmp", "SSL_CERT_FILE=" + rootsFile},
		Labels: map[string]string{"org.opencontainers.image.title": "edl", "org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.source": "https://" + info.Main.Path,
			"org.opencontainers.image.version": built.version, "org.opencontainers.image.revision": built.revision}}
	image, err = mutate.ConfigFile(image, file)
	return mutate.ConfigMediaType(image, types.OCIConfigJSON), err
}

// A built is what Go has recorded of a build.
type built struct {
	version, revision string
	at                time.Time // of the commit; 1970 when it is not known, so that two builds are equal
}

func builtOf(info *buildinfo.BuildInfo) built {
	b := built{version: info.Main.Version, at: time.Unix(0, 0).UTC()}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.time":
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
				b.at = at.UTC()
			}
		}
	}
	return b
}
