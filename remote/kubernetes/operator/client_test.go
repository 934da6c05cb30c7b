package operator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/kubernetes/operator"
)

// An apiServer answers each path as a test says. What the real one says is tested by TestClusterChart.
func apiServer(t *testing.T, answer func(method, path string) (code int, body string)) *operator.Client {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, body := answer(r.Method, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(h.Close)
	c, err := operator.NewClient(&rest.Config{Host: h.URL}, "team-a")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func refusal(code int, reason, name string) (int, string) {
	return code, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": %q, "message": "said the server", "code": %d, "details": {"name": %q}}`, reason, code, name)
}

const resources = "/apis/edl-go.github.io/v1alpha1/namespaces/team-a/trainingjobs"

// Each refusal becomes a fault of a kind that programs know, with what to do.
func TestClientIsRefused(t *testing.T) {
	all := func(c *operator.Client) error { _, err := c.List(t.Context()); return err }
	one := func(c *operator.Client) error { _, err := c.Get(t.Context(), "digits"); return err }
	scale := func(c *operator.Client) error { return c.Scale(t.Context(), "digits", 9) }
	for _, c := range []struct {
		name         string
		do           func(*operator.Client) error
		code         int
		reason, of   string
		hasNamespace bool
		want         fault.Kind
		says         string
	}{
		{"no definition", all, 404, "NotFound", "", true, fault.NotFound, "edl operator --crd | kubectl apply -f -"},
		{"no rights", all, 403, "Forbidden", "", true, fault.Denied, "edl-viewer"},
		{"nobody", one, 401, "Unauthorized", "", true, fault.Denied, "--kubeconfig"},
		{"no job", one, 404, "NotFound", "digits", true, fault.NotFound, "none of that name in the namespace team-a"},
		{"no namespace", one, 404, "NotFound", "digits", false, fault.NotFound, "kubectl create namespace team-a"},
		{"out of bounds", scale, 422, "Invalid", "digits", true, fault.InvalidArgument, "said the server"},
		{"changed", scale, 409, "Conflict", "digits", true, fault.Unavailable, "try again"},
		{"broken", scale, 500, "InternalError", "digits", true, fault.Unavailable, "said the server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.do(apiServer(t, func(_, path string) (int, string) {
				switch {
				case !strings.HasSuffix(path, "/namespaces/team-a"):
					return refusal(c.code, c.reason, c.of)
				case c.hasNamespace:
					return 200, `{"apiVersion": "v1", "kind": "Namespace"}`
				}
				return refusal(404, "NotFound", "team-a")
			}))
			if fault.KindOf(err) != c.want || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v with %q", err, c.want, c.says)
			}
		})
	}
	empty := func(code int) *operator.Client {
		return apiServer(t, func(_, path string) (int, string) {
			if strings.HasSuffix(path, "/namespaces/team-a") {
				return refusal(code, map[int]string{404: "NotFound", 403: "Forbidden"}[code], "team-a")
			}
			return 200, `{"apiVersion": "edl-go.github.io/v1alpha1", "kind": "TrainingJobList", "metadata": {}, "items": []}`
		})
	}
	if err := all(empty(404)); !errors.Is(err, fault.NotFound) {
		t.Errorf("a namespace that is not there: %v", err)
	}
	if err := all(empty(403)); err != nil { // who may not look at namespaces may be right
		t.Error(err)
	}
}

// Stop returns when the resource is gone, also if another of its name is there by then, and says what it waits for when its time is over.
func TestClientStops(t *testing.T) {
	resource := func(uid string) string {
		return `{"apiVersion": "edl-go.github.io/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "digits", "uid": "` + uid + `"}, "spec": {}}`
	}
	job := &operator.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "digits", UID: "u1"}}
	for _, c := range []struct {
		name  string
		after func() (int, string) // what a look answers
		late  bool
	}{
		{"gone", func() (int, string) { return refusal(404, "NotFound", "digits") }, false},
		{"another", func() (int, string) { return 200, resource("u2") }, false},
		{"held", func() (int, string) { return 200, resource("u1") }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			deleted := false
			client := apiServer(t, func(method, path string) (int, string) {
				switch {
				case method == http.MethodDelete && path == resources+"/digits":
					deleted = true
					return 200, `{"apiVersion": "v1", "kind": "Status", "status": "Success"}`
				case path == resources+"/digits":
					if c.late {
						cancel(errors.New("its time is over"))
					}
					return c.after()
				}
				return 200, `{"apiVersion": "v1", "kind": "Namespace"}`
			})
			err := client.Stop(ctx, job)
			if !deleted || c.late != errors.Is(err, fault.DeadlineExceeded) || !c.late && err != nil {
				t.Errorf("deleted %t, %v", deleted, err)
			}
		})
	}
}

// A served is a TrainingJob that changes as its operator would change it.
type served struct {
	suspend    bool
	generation int
	patches    []string
	status     func(suspend bool) string // of the spec as it is now
}

func (s *served) answer(method, path string, body string) (int, string) {
	if path != resources+"/digits" {
		return 200, `{"apiVersion": "v1", "kind": "Namespace"}`
	}
	if method == http.MethodPatch {
		s.generation++
		s.suspend = strings.Contains(body, "true")
		s.patches = append(s.patches, body)
	}
	status := fmt.Sprintf(`{"observedGeneration": %d, %s}`, s.generation, s.status(s.suspend))
	return 200, fmt.Sprintf(`{"apiVersion": "edl-go.github.io/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "digits", "generation": %d}, "spec": {"suspend": %t}, "status": %s}`, s.generation, s.suspend, status)
}

func (s *served) client(t *testing.T) *operator.Client {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		code, body := s.answer(r.Method, r.URL.Path, string(b))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(h.Close)
	c, err := operator.NewClient(&rest.Config{Host: h.URL}, "team-a")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const held = `"conditions": [{"type": "Suspended", "status": "%s", "reason": "%s", "lastTransitionTime": null}]`

// A job is suspended when its operator says so of the spec as it is now. One that the operator cannot suspend goes on, and so does the spec; one that has ended is left alone.
func TestClientSuspends(t *testing.T) {
	on, off := `{"spec": {"suspend": true}}`, `{"spec": {"suspend": false}}`
	for _, c := range []struct {
		name   string
		status func(suspend bool) string
		want   string   // of the error; empty: none
		sent   []string // to the API server
	}{
		{"suspended", func(suspend bool) string {
			return fmt.Sprintf(held, map[bool]string{true: "True", false: "False"}[suspend], "Asked") + `, "checkpoint": "/data/ckpt@70"`
		}, "", []string{on}},
		{"refused", func(suspend bool) string {
			return map[bool]string{true: `"refused": "got a job without checkpoints"`, false: `"state": "running"`}[suspend]
		}, "got a job that goes on: got a job without checkpoints", []string{on, off}},
		{"ended", func(bool) string {
			return `"state": "Failed", "checkpoint": "/data/ckpt@70", "conditions": [{"type": "Failed", "status": "True", "reason": "Stopped", "lastTransitionTime": null}]`
		}, "resume: /data/ckpt@70", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &served{status: c.status}
			client := s.client(t)
			last, err := client.Suspend(t.Context(), "digits")
			if c.want == "" && (err != nil || *last.Status.Checkpoint != "/data/ckpt@70") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%+v, %v, want %q", last, err, c.want)
			}
			if !slices.Equal(s.patches, c.sent) {
				t.Errorf("sent are %q, want %q", s.patches, c.sent)
			}
			if c.want != "" {
				return
			}
			if err := client.Resume(t.Context(), "digits"); err != nil || s.suspend {
				t.Errorf("resumed: %v, %v", s.suspend, err)
			}
		})
	}

	// A job that makes room for another one has not been suspended by its resource yet.
	s := &served{status: func(bool) string { return fmt.Sprintf(held, "True", "MakesRoom") }}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.client(t).Suspend(ctx, "digits"); err == nil {
		t.Error("a job that makes room is taken for one that was suspended")
	}
}

// A command without a name means the job that has not ended, or else the newest.
func TestChosen(t *testing.T) {
	list := func(names ...string) (all []operator.TrainingJob) { // "-" in front: it has ended
		for _, name := range names {
			bare, ended := strings.CutPrefix(name, "-")
			job := operator.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: bare, CreationTimestamp: metav1.NewTime(time.Unix(int64(len(all)), 0))}}
			if ended {
				job.Status.Conditions = []metav1.Condition{{Type: operator.Failed, Status: metav1.ConditionTrue}}
			}
			all = append(all, job)
		}
		return all
	}
	for _, c := range []struct {
		list []operator.TrainingJob
		want string
		kind fault.Kind
	}{
		{list("-a", "b", "-c"), "b", 0}, {list("-a", "-c"), "c", 0}, {list("a", "-b", "c"), "a, c", fault.InvalidArgument}, {nil, "without a TrainingJob", fault.NotFound},
	} {
		got, err := operator.Chosen(c.list)
		if c.kind == 0 && (err != nil || got.Name != c.want) || c.kind != 0 && (!errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, %v, want %s", got, err, c.want)
		}
	}
}
