package operator

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
)

// Users of the cluster read the log of pods that are gone in a ConfigMap, which the TrainingJob owns. The operator writes it when starts of roles have ended: at the end of a job, when the job
// is suspended, and now and then while roles start again. The ConfigMap has the last lines of all starts, as "ROLE/START LINE".
const (
	logKey      = "log.gz"
	cutKey      = "cut"     // is there if the first lines were left out
	maxLog      = 256 << 10 // compressed, in bytes
	maxPlainLog = 64 << 20  // of a log that is read
	maxLogLine  = 128 << 10
)

// logOf names the ConfigMap. Another TrainingJob of the name has another.
func logOf(uid types.UID) string { return "edl-log-" + string(uid) }

// packLog compresses lines. Of more than maxLog bytes it leaves out the first half as often as it must.
func packLog(lines []string) (packed []byte, cut bool, err error) {
	for {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err = io.WriteString(w, strings.Join(lines, ""))
		if err = errors.Join(err, w.Close()); err != nil || b.Len() <= maxLog || len(lines) == 0 {
			return b.Bytes(), cut, fault.Wrap(fault.Internal, logKey, err)
		}
		lines, cut = lines[(len(lines)+1)/2:], true
	}
}

// unpackLog calls each with the lines of packLog.
func unpackLog(packed []byte, each func(role string, start int, line string) error) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fault.Wrap(fault.Corrupt, logKey, err)
	}
	lines := bufio.NewScanner(io.LimitReader(r, maxPlainLog))
	lines.Buffer(nil, maxLogLine)
	for lines.Scan() {
		of, line, _ := strings.Cut(lines.Text(), " ")
		role, number, _ := strings.Cut(of, "/")
		start, err := strconv.Atoi(number)
		if err != nil {
			return fault.E(fault.Corrupt, fault.At(logKey), fault.Got(fault.Quote(of)), fault.Want("a role and its start"))
		}
		if err := each(role, start, line); err != nil {
			return err
		}
	}
	return fault.Wrap(fault.Corrupt, logKey, lines.Err())
}

// keepLog writes the log of a job into the ConfigMap of its resource. Of a job that has ended it waits for the last lines.
func (o *operator) keepLog(ctx context.Context, t *TrainingJob, j *Job) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var lines []string
	err := remote.Lines(ctx, o.jobs.client, j.Name, j.Ended, func(l *rpc.LogLine) error {
		lines = append(lines, fmt.Sprintf("%s/%d %s\n", l.Role, l.Start, l.Line))
		return nil
	})
	if err != nil || len(lines) == 0 {
		return err
	}
	packed, cut, err := packLog(lines)
	if err != nil {
		return err
	}
	return o.api.writeLog(ctx, t, packed, cut)
}

// writeLog makes the ConfigMap with the log of a resource, or changes it.
func (a *api) writeLog(ctx context.Context, t *TrainingJob, packed []byte, cut bool) error {
	name, yes := logOf(t.UID), true
	m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, BinaryData: map[string][]byte{logKey: packed},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: a.namespace, OwnerReferences: []metav1.OwnerReference{{APIVersion: Group + "/" + Version, Kind: Kind, Name: t.Name, UID: t.UID, Controller: &yes}}}}
	if cut {
		m.Data = map[string]string{cutKey: "the first lines"}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return fault.Wrap(fault.Internal, name, err)
	}
	maps := []string{"/api/v1/namespaces", a.namespace, "configmaps"}
	err = a.client.Patch(types.MergePatchType).AbsPath(append(maps, name)...).Body(b).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		err = a.client.Post().AbsPath(maps...).SetHeader("Content-Type", "application/json").Body(b).Do(ctx).Error()
	}
	return err
}

// Log calls each with what roles of a TrainingJob had written when the operator looked last: of each start whose pod was gone by then, all that is left of it. whole is false if the first lines were left out. A job whose
// pods are all there has none. It needs the verb get of configmaps.
func (c *Client) Log(ctx context.Context, t *TrainingJob, each func(role string, start int, line string) error) (whole bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	b, err := c.api.client.Get().AbsPath("/api/v1/namespaces", c.api.namespace, "configmaps", logOf(t.UID)).Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, c.refused(ctx, t.Name, err)
	}
	m := &corev1.ConfigMap{}
	if err := json.Unmarshal(b, m); err != nil {
		return false, fault.Wrap(fault.Corrupt, "ConfigMap "+logOf(t.UID), err)
	}
	return m.Data[cutKey] == "", unpackLog(m.BinaryData[logKey], each)
}
