package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var platforms = []string{"linux/amd64", "linux/arm64"}

// made makes the image of hello, and its archive.
func made(t *testing.T) (v1.ImageIndex, []byte) {
	t.Helper()
	index, err := job{dir: ".", pkg: "./internal/hello", platforms: platforms, scratch: t.TempDir(), log: t.Logf}.make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := writeArchive(out, index, "edl:test"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return index, b
}

// Two builds in different folders give one digest, and one archive. The image is valid, and has for each platform what a pod under the standard "restricted" needs: a user by number, no shell, and
// files that only root may write.
func TestImage(t *testing.T) {
	index, archive := made(t)
	again, archiveAgain := made(t)
	first, err := index.Digest()
	second, failed := again.Digest()
	if err != nil || failed != nil || first != second || !bytes.Equal(archive, archiveAgain) {
		t.Errorf("two builds give %v (%v) and %v (%v)", first, err, second, failed)
	}
	dir := t.TempDir()
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}
	if index, err = layout.ImageIndexFromPath(dir); err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	m, err := index.IndexManifest()
	if err != nil || len(m.Manifests) != len(platforms) {
		t.Fatalf("%+v, %v", m, err)
	}
	for i, d := range m.Manifests {
		if d.Platform.String() != platforms[i] {
			t.Errorf("platform %d is %v, want %s", i, d.Platform, platforms[i])
		}
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		c, err := image.ConfigFile()
		if err != nil || c.Config.User != "65532:65532" || !slices.Equal(c.Config.Entrypoint, []string{command}) || c.OS+"/"+c.Architecture != platforms[i] {
			t.Errorf("its configuration is %+v, %v", c, err)
		}
		got := filesOf(t, image)
		if !bytes.Contains(got[command], []byte("\x7fELF")) || bytes.Contains(got[command], []byte("/lib64/ld-linux")) {
			t.Errorf("%s is no static binary", command)
		}
		if want := `{"binary": "` + filepath.Base(d.Platform.OS+"-"+d.Platform.Architecture) + "\"}\n"; string(got[sbomFile]) != want {
			t.Errorf("the bill of materials is %s, want %s", got[sbomFile], want)
		}
		if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(got[rootsFile]) {
			t.Error("there are no roots of certificates")
		}
		if len(got) != 4 {
			t.Errorf("%d files, want 4", len(got))
		}
	}
}

// filesOf reads the files of an image. None may be written by others, or has the rights of another user.
func filesOf(t *testing.T, image v1.Image) map[string][]byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all := map[string][]byte{}
	for from := tar.NewReader(r); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Uid != 0 || h.Gid != 0 || h.Mode&0o6022 != 0 {
			t.Errorf("%s has the owner %d:%d and the mode %o", h.Name, h.Uid, h.Gid, h.Mode)
		}
		if all["/"+h.Name], err = io.ReadAll(from); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImageOfNoPlatform(t *testing.T) {
	if _, err := (job{dir: ".", pkg: "./internal/hello", platforms: []string{"linux"}, scratch: t.TempDir(), log: t.Logf}).make(t.Context()); err == nil {
		t.Error("an image is made for the platform \"linux\"")
	}
}
