package dataset

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	_ "gocloud.dev/blob/s3blob"
)

// A bucketKit is a bucket of one driver.
type bucketKit struct {
	url   func(key string) string
	put   func(key string, b []byte)
	count func() (requests []string) // since the last call; nil where nobody counts
}

func folderBucket(t testing.TB) bucketKit {
	dir := t.TempDir()
	return bucketKit{
		url: func(key string) string { return "file://" + dir + "/" + key },
		put: func(key string, content []byte) {
			path := filepath.Join(dir, key)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func s3Bucket(t *testing.T) bucketKit {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	backend := s3mem.New()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var requests []string
	handler := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	query := "?region=us-east-1&use_path_style=true&endpoint=" + url.QueryEscape(server.URL)
	return bucketKit{
		url: func(key string) string { return "s3://data/" + key + query },
		put: func(key string, content []byte) {
			if _, err := backend.PutObject("data", key, nil, strings.NewReader(string(content)), int64(len(content)), nil); err != nil {
				t.Fatal(err)
			}
		},
		count: func() []string {
			mu.Lock()
			defer mu.Unlock()
			r := requests
			requests = nil
			return r
		},
	}
}

// eachBucket runs a test with every driver.
func eachBucket(t *testing.T, test func(t *testing.T, b bucketKit)) {
	t.Run("memory", func(t *testing.T) { test(t, memoryBucket(t)) })
	t.Run("folder", func(t *testing.T) { test(t, folderBucket(t)) })
	t.Run("s3", func(t *testing.T) { test(t, s3Bucket(t)) })
}

// upload copies the files of a folder into a bucket.
func upload(t testing.TB, b bucketKit, dir, prefix string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b.put(prefix+e.Name(), content)
	}
}
