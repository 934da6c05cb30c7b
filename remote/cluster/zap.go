package cluster

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapTo returns the logger that etcd is given. Its errors become warnings, for EDL reports by itself what it cannot do; its warnings, of which there
// are many on a busy machine, become debug messages; the rest is left out, and so is all that comes after ended: servers complain when they are
// closed. What a new server says of a storage that has no entry yet is no error at all: it tries again.
func zapTo(ended context.Context, log *slog.Logger) *zap.Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return zap.New(zapCore{log: log.With("from", "etcd"), ended: ended})
}

// zapCore is a zapcore.Core over slog.
type zapCore struct {
	log   *slog.Logger
	ended context.Context
}

// untilFirstEntry is the message of a server whose storage is as new as itself.
const untilFirstEntry = "failed to update storage version"

func levelOf(l zapcore.Level) slog.Level {
	if l >= zapcore.ErrorLevel {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (c zapCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && c.ended.Err() == nil && c.log.Enabled(context.Background(), levelOf(l))
}

func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{log: slog.New(c.log.Handler().WithAttrs(attributes(fields))), ended: c.ended}
}

func (c zapCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

func (c zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := levelOf(e.Level)
	if e.Message == untilFirstEntry {
		level = slog.LevelDebug
	}
	c.log.LogAttrs(context.Background(), level, e.Message, attributes(fields)...)
	return nil
}

func (c zapCore) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	values := zapcore.NewMapObjectEncoder()
	attrs := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		f.AddTo(values)
		attrs = append(attrs, slog.Any(f.Key, values.Fields[f.Key]))
	}
	return attrs
}
