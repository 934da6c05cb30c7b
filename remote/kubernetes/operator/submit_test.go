package operator_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/kubernetes/operator"
)

// A job file becomes a TrainingJob with its program beside it, which is the same job.
func TestSubmission(t *testing.T) {
	s, err := operator.NewSubmission("team-a", []byte("name: digits\nprogram: p.pb\ntrainers: 2:4\nround_deadline: 3m\nqueue: main\npod: {env: {A: 1}}\n"), []byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.YAML()
	if err != nil || !strings.Contains(string(text), "name: digits-program") || !strings.Contains(string(text), `A: "1"`) || !strings.Contains(string(text), "program.pb: cHJvZ3JhbQ==") || strings.Contains(string(text), "p.pb\n") {
		t.Errorf("%v:\n%s", err, text)
	}
	b, err := json.Marshal(s.Job)
	var tj operator.TrainingJob
	if err == nil {
		err = json.Unmarshal(b, &tj)
	}
	if err != nil {
		t.Fatal(err)
	}
	tj.UID = "u1"
	f, err := tj.Job()
	if err != nil || f.Spec.Name != "digits" || f.Spec.TrainersMax != 4 || f.Spec.RoundDeadline.AsDuration().Minutes() != 3 || f.Spec.Pod.Env["A"] != "1" || tj.Spec.ProgramFrom.ConfigMap != "digits-program" {
		t.Errorf("the job is %v, %v", f, err)
	}
	for text, says := range map[string]string{"trainers: 2": "no name", "name: a\ntrainer: 2": "unknown field trainer"} {
		if _, err := operator.NewSubmission("", []byte(text), nil); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := operator.NewSubmission("", []byte("name: a"), make([]byte, 1<<20+1)); !errors.Is(err, fault.TooLarge) {
		t.Errorf("a large program: %v", err)
	}
}

// The TrainingJob owns the ConfigMap with its program. If it is refused, the ConfigMap goes.
func TestCreate(t *testing.T) {
	for _, c := range []struct {
		name    string
		refusal int
		want    fault.Kind
		calls   string
	}{
		{"made", 0, 0, "GET trainingjobs, POST configmaps, POST trainingjobs, PATCH digits-program"},
		{"refused", http.StatusUnprocessableEntity, fault.InvalidArgument, "GET trainingjobs, POST configmaps, POST trainingjobs, DELETE digits-program"},
		{"forbidden", http.StatusForbidden, fault.Denied, "GET trainingjobs, POST configmaps, POST trainingjobs, DELETE digits-program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls []string
			var owner string
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // calls come one after the other
				parts := strings.Split(r.URL.Path, "/")
				last := parts[len(parts)-1]
				calls = append(calls, r.Method+" "+last)
				if !slices.Contains(parts, "team-a") {
					t.Errorf("%s is in another namespace", r.URL)
				}
				w.Header().Set("Content-Type", "application/json")
				body, err := io.ReadAll(r.Body)
				switch {
				case err != nil:
					t.Error(err)
				case r.Method == http.MethodPost && last == operator.Resource && c.refusal != 0:
					reason := map[int]string{http.StatusForbidden: "Forbidden", http.StatusUnprocessableEntity: "Invalid"}[c.refusal]
					w.WriteHeader(c.refusal)
					_, _ = io.WriteString(w, `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "`+reason+`", "message": "no", "code": 422}`)
				case r.Method == http.MethodPost && last == operator.Resource:
					_, _ = io.WriteString(w, `{"apiVersion": "edl-go.github.io/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "digits", "uid": "u7"}, "spec": {}}`)
				case r.Method == http.MethodPatch:
					owner = string(body)
					_, _ = io.WriteString(w, `{}`)
				default:
					_, _ = io.WriteString(w, `{"apiVersion": "v1", "kind": "Status", "status": "Success"}`)
				}
			}))
			defer h.Close()
			s, err := operator.NewSubmission("", []byte("name: digits"), []byte("program"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Create(t.Context(), &rest.Config{Host: h.URL}, "team-a"); c.want == 0 && err != nil || c.want != 0 && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if got := strings.Join(calls, ", "); got != c.calls {
				t.Errorf("the calls are %s", got)
			}
			if (owner != "") != (c.want == 0) || owner != "" && !strings.Contains(owner, `"uid": "u7"`) {
				t.Errorf("the owner is %s", owner)
			}
		})
	}
}
