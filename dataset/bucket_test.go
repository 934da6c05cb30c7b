package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	_ "gocloud.dev/blob/s3blob"
	"pgregory.net/rapid"
)

func TestBucketsHoldTheSameDataset(t *testing.T) {
	local, dir := threeFiles(t)
	eachBucket(t, func(t *testing.T, b bucketKit) {
		upload(t, b, dir, "a folder/x/")
		b.put("a folder/x/further/train-9", []byte("no record file, and not meant"))
		b.put("a folder/xtrain-9", []byte("neither is this"))
		d, err := Open(t.Context(), []string{b.url("a%20folder/x/train-[2]"), b.url("a%20folder/x/train-*")})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var names []string
		for _, f := range d.Files() {
			names = append(names, strings.TrimPrefix(f.Path, b.url("")[:len(b.url(""))-len(query(b.url("")))]))
		}
		if got, want := strings.Join(names, " "),
			"a%20folder/x/train-2 a%20folder/x/train-0 a%20folder/x/train-1"; strings.ReplaceAll(got, query(b.url("")), "") != want {
			t.Errorf("files %s, want %s", got, want)
		}
		grown := new(Dataset) // in the order of the files of this machine
		defer grown.Close()
		for _, f := range local.Files() {
			if err := grown.Add(t.Context(), b.url("a%20folder/x/"+filepath.Base(f.Path)), f); err != nil {
				t.Fatal(err)
			}
		}
		rapid.Check(t, func(rt *rapid.T) {
			from := rapid.Int64Range(0, 10).Draw(rt, "from")
			to := rapid.Int64Range(from, 10).Draw(rt, "to")
			next := from
			for r, err := range grown.Records(context.Background(), from, to) {
				if err != nil || r.Number != next || string(r.Bytes) != string(sample(t, int(next))) {
					rt.Fatalf("record %d where %d was due, error %v", r.Number, next, err)
				}
				next++
			}
			if next != to {
				rt.Fatalf("[%d, %d) ended at %d", from, to, next)
			}
		})
	})
}

// query is the query of a URL with its question mark.
func query(u string) string {
	if i := strings.IndexByte(u, '?'); i >= 0 {
		return u[i:]
	}
	return ""
}

func TestBucketsRefuse(t *testing.T) {
	_, dir := threeFiles(t)
	eachBucket(t, func(t *testing.T, b bucketKit) {
		upload(t, b, dir, "")
		b.put("other", []byte("no record file"))
		for glob, kind := range map[string]fault.Kind{
			b.url("test-*"): fault.NotFound, b.url("other"): fault.Corrupt, b.url("["): fault.InvalidArgument, b.url(""): fault.InvalidArgument,
			b.url("folder/"): fault.InvalidArgument, "nosuch://bucket/x": fault.InvalidArgument, "memtest://none/x": fault.Unavailable,
		} {
			if _, err := Open(t.Context(), []string{glob}); !errors.Is(err, kind) || !strings.Contains(err.Error(), "://") {
				t.Errorf("%s: %v, want %v", glob, err, kind)
			}
		}
		if err := new(Dataset).Add(t.Context(), b.url("train-9"), FileInfo{}); !errors.Is(err, fault.NotFound) {
			t.Errorf("a missing object: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d, err := Open(ctx, []string{b.url("train-*")})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		n := 0
		for r, err := range d.Records(ctx, 0, 10) {
			if n++; n == 1 {
				cancel()
			} else if !errors.Is(err, fault.Canceled) {
				t.Errorf("record %d after the end: %v", r.Number, err)
			}
		}
		if n != 2 {
			t.Errorf("%d values", n)
		}
	})
}

// Opening reads the ends of objects, and a run of records no chunk that it does not need.
func TestBucketsAreReadInRanges(t *testing.T) {
	b := s3Bucket(t)
	path := filepath.Join(t.TempDir(), "train")
	writeFile(t, path, 0, 5000) // two records a chunk, 2500 chunks: more than the end that is read at once
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b.put("big", content)
	b.put("small", content[:0])
	d, err := Open(t.Context(), []string{b.url("big")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got := b.count(); len(got) > 5 || !strings.HasPrefix(got[0], "GET /data") {
		t.Errorf("to open: %q", got)
	}
	for r, err := range d.Records(t.Context(), 10, 13) {
		if err != nil || string(r.Bytes) != string(sample(t, int(r.Number))) {
			t.Fatal(err)
		}
	}
	f := d.files[0]
	first, last := f.Index.Chunks[5], f.Index.Chunks[7]
	got := b.count()
	for _, request := range got {
		var from, to int64
		if _, err := fmt.Sscanf(request, "GET /data/big bytes=%d-%d", &from, &to); err != nil || from < first.Offset || to >= last.Offset+2000 {
			t.Errorf("to read bytes [%d, %d): %s", first.Offset, last.Offset, request)
		}
	}
	if len(got) == 0 || len(got) > 2 {
		t.Errorf("%d requests for two chunks: %q", len(got), got)
	}
	for range d.Records(t.Context(), 0, 5000) {
	}
	if got := b.count(); len(got) > 20 {
		t.Errorf("%d requests for all chunks, one after the other", len(got))
	}
}

// A trainer asks a store for the chunks of its rows, with one request a batch.
func TestPartsAreReadInRanges(t *testing.T) {
	b := s3Bucket(t)
	path := filepath.Join(t.TempDir(), "train")
	writeFile(t, path, 0, 8000) // two records a chunk
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b.put("big", content)
	d, err := Open(t.Context(), []string{b.url("big")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l := d.Loader(t.Context())
	defer l.Close()
	chunks := d.files[0].Index.Chunks
	batch := int64(0)
	for got, err := range newBatcher(t, BatchOptions{Rows: 1600}).Select(Selection{Part: Part{3, 8}, Read: l.Records, // rows 600 to 799
		Order: func(int64) iter.Seq2[[]Range, error] {
			return func(yield func([]Range, error) bool) { yield([]Range{{From: 0, To: 6400}}, nil) }
		}}) {
		if err != nil || got.Rows != 200 || got.Tensors[1].Int64s()[0] != batch*1600+600 {
			t.Fatal(got, err)
		}
		own := chunks[batch*800+300 : batch*800+400]
		want := fmt.Sprintf("GET /data/big bytes=%d-%d", own[0].Offset, own[len(own)-1].Offset+own[1].Offset-own[0].Offset-1)
		if requests := b.count(); batch > 0 && (len(requests) != 1 || requests[0] != want) {
			t.Errorf("batch %d: %q, want %s", batch, requests, want)
		}
		batch++
	}
	if batch != 4 {
		t.Errorf("%d batches", batch)
	}
}

// A bucketKit is a bucket of one driver.
type bucketKit struct {
	url   func(key string) string
	put   func(key string, b []byte)
	count func() (requests []string) // since the last call; nil if the requests are not counted
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

// shared is the driver memtest://NAME, whose buckets are in memory. Unlike those of the driver mem, they last: buckets that are opened
// several times have one content.
type shared struct {
	mu      sync.Mutex
	content map[string]map[string][]byte // by bucket and key
	open    map[string][]*blob.Bucket
}

func (s *shared) OpenBucketURL(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.content[u.Host]
	if !ok {
		return nil, fmt.Errorf("no bucket %q", u.Host)
	}
	b := memblob.OpenBucket(nil)
	for key, value := range content {
		if err := b.WriteAll(ctx, key, value, nil); err != nil {
			return nil, err
		}
	}
	s.open[u.Host] = append(s.open[u.Host], b)
	return b, nil
}

func (s *shared) put(host, key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content[host][key] = value
	for _, b := range s.open[host] {
		b.WriteAll(context.Background(), key, value, nil) // fails for those that are closed
	}
}

var inMemory = &shared{content: map[string]map[string][]byte{}, open: map[string][]*blob.Bucket{}}

func init() { blob.DefaultURLMux().RegisterBucket("memtest", inMemory) }

func memoryBucket(t testing.TB) bucketKit {
	host := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	inMemory.content[host] = map[string][]byte{}
	return bucketKit{
		url: func(key string) string { return "memtest://" + host + "/" + key },
		put: func(key string, content []byte) { inMemory.put(host, key, content) },
	}
}
