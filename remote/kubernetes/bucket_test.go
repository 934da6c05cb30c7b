//go:build linux

package kubernetes_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A bucket is one of S3. Who calls it must have its key.
type bucket struct {
	t       *testing.T
	objects *s3mem.Backend
	query   string // of its URLs
}

// bucketKey is the name of the only key that opens the bucket.
const bucketKey = "key-of-a-test"

// newBucket makes a bucket with files.
func newBucket(t *testing.T, files []string) *bucket {
	t.Helper()
	b := &bucket{t: t, objects: s3mem.New()}
	s3 := gofakes3.New(b.objects).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential="+bucketKey+"/") {
			http.Error(w, "no key", http.StatusForbidden)
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.query = "?region=us-east-1&use_path_style=true&endpoint=" + url.QueryEscape(server.URL)
	if err := b.objects.CreateBucket("team"); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil {
			_, err = b.objects.PutObject("team", filepath.Base(file), nil, bytes.NewReader(content), int64(len(content)), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// url is the URL of what has a name in the bucket; empty: of the bucket.
func (b *bucket) url(name string) string { return "s3://" + path.Join("team", name) + b.query }

// secret makes a Secret with the key.
func (b *bucket) secret(r *clusterRig, namespace string) {
	b.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bucket"}, StringData: map[string]string{"AWS_ACCESS_KEY_ID": bucketKey, "AWS_SECRET_ACCESS_KEY": "secret"}}
	if err := r.Core().Post().Namespace(namespace).Resource("secrets").Body(s).Do(r.Context()).Error(); err != nil {
		b.t.Fatal(err)
	}
}

// fetch copies the objects of a folder of the bucket to a new directory.
func (b *bucket) fetch(folder string) (dir string) {
	b.t.Helper()
	dir = b.t.TempDir()
	list, err := b.objects.ListBucket("team", &gofakes3.Prefix{HasPrefix: true, Prefix: folder + "/"}, gofakes3.ListBucketPage{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, one := range list.Contents {
		o, err := b.objects.GetObject("team", one.Key, nil)
		if err != nil {
			b.t.Fatal(err)
		}
		content, err := io.ReadAll(o.Contents)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, path.Base(one.Key)), content, 0o600)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return dir
}

// trainsIn trains a job whose records, model and checkpoints are in a bucket, and another one that goes on from its last checkpoint. The listener and the roles have the key, and who starts the
// jobs has none.
func (c *release) trainsIn(b *bucket, listener string) {
	c.Helper()
	run := func(save string, more ...string) {
		c.Helper()
		cmd := c.run(append([]string{"run", filepath.Join(c.dir, "program.pb"), "--data", "train=" + b.url("train-*"), "--save", b.url(save), "--remote=" + listener, "--trainers", "2", "--pservers", "2"}, more...)...)
		cmd.Env = append(cmd.Env, "EDL_AUTHORITY="+filepath.Join(c.dir, "edl", "authority.pem"))
		c.command(cmd)
		c.compare(b.fetch(save), 1)
	}
	run("model", "--checkpoint", b.url("checkpoints"), "--checkpoint-every", "20r")
	run("again", "--resume", b.url("checkpoints"))
	c.nothingLeft(c.namespace)
}
