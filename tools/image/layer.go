package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Paths in the image.
const (
	command   = "/usr/local/bin/edl"
	rootsFile = "/etc/ssl/certs/ca-certificates.crt"
	sbomFile  = "/usr/share/edl/sbom.cdx.json"
	users     = "/etc/passwd"
)

// A file is one of the image. A name that ends with / is a folder.
type file struct {
	name string
	mode int64
	data []byte
}

// files are those of the image, folders before what is in them.
func files(binary, sbom []byte) []file {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a file of certificates cannot say the others' limits
			_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes all
		}
	}
	return []file{
		{"etc/", 0o755, nil},
		{users, 0o644, []byte("edl:x:65532:65532:edl:/tmp:/sbin/nologin\n")}, // for what asks for the name of its user
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{rootsFile, 0o644, roots.Bytes()},
		{"tmp/", 0o1777, nil},
		{"usr/", 0o755, nil},
		{"usr/local/", 0o755, nil},
		{"usr/local/bin/", 0o755, nil},
		{command, 0o755, binary},
		{"usr/share/", 0o755, nil},
		{"usr/share/edl/", 0o755, nil},
		{sbomFile, 0o644, sbom},
	}
}

// layerOf is a layer of files, all of one time.
func layerOf(at time.Time, list []file) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range list {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.name, "/"), Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}
