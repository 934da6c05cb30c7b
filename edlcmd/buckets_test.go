package edlcmd

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
)

// trained runs edl on data and returns the bytes of all that it saves.
func trained(t *testing.T, program, data string) []byte {
	t.Helper()
	dir := t.TempDir()
	var diagnostics bytes.Buffer
	args := []string{"run", program, "--data", "train=" + data, "--save", dir}
	if code := run(t.Context(), args, strings.NewReader(""), io.Discard, &diagnostics); code != 0 {
		t.Fatalf("edl %s ended with %d: %s", strings.Join(args, " "), code, diagnostics.String())
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing is saved, error %v", err)
	}
	var all []byte
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

func TestTrainingReadsBuckets(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(t.TempDir(), "program.pb")
	if err := testkit.Reading(t, 8, optimizer.SGD(0.1)).Program.Save(program); err != nil {
		t.Fatal(err)
	}
	glob := testkit.Samples(t, dir, 100)[testkit.Dataset][0]
	files, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := backend.PutObject("data", "x/"+filepath.Base(file), nil, bytes.NewReader(b), int64(len(b)), nil); err != nil {
			t.Fatal(err)
		}
	}
	want := trained(t, program, glob)
	for _, bucket := range []string{
		"file://" + glob, "s3://data/x/train-*?region=us-east-1&use_path_style=true&endpoint=" + url.QueryEscape(server.URL),
	} {
		if got := trained(t, program, bucket); !bytes.Equal(got, want) {
			t.Errorf("training from %s gives other parameters than from the same files as paths", bucket)
		}
	}
}

// Who has no credentials for a bucket is told so in one line, which says where they are looked for.
func TestBucketWithoutCredentials(t *testing.T) {
	machine := httptest.NewServer(http.NotFoundHandler()) // gives no credentials to those who run on it
	defer machine.Close()
	args := endless(t)
	for i, arg := range args {
		if strings.HasPrefix(arg, "train=") {
			args[i] = "train=s3://data/train-*?region=us-east-1"
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, edlFile(t), args...)
	nothing := filepath.Join(t.TempDir(), "nothing")
	cmd.Env = []string{"HOME=" + t.TempDir(), "AWS_CONFIG_FILE=" + nothing, "AWS_SHARED_CREDENTIALS_FILE=" + nothing,
		"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + machine.URL}
	var said bytes.Buffer
	cmd.Stderr = &said
	_ = cmd.Run()
	text := said.String()
	if code := cmd.ProcessState.ExitCode(); code != 1 || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "edl: s3://data/train-*") ||
		!strings.Contains(text, "AWS_ACCESS_KEY_ID") {
		t.Errorf("ended with %d:\n%s", code, text)
	}
}
