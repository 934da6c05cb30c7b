package dataset

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	_ "gocloud.dev/blob/s3blob"
)

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
