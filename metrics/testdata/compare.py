# Writes sklearn.csv: scores of rows of the Adult table, and what scikit-learn says of them. Run it with Debian's python3-sklearn:
#   python3 compare.py adult.data > sklearn.csv
# The score is a fixed function of the row, not a trained model: age, years of education and hours a week, in whole steps, so that many rows share one.
import csv
import sys

import numpy as np
from sklearn import metrics

rows = [r for r in csv.reader(open(sys.argv[1]), skipinitialspace=True) if len(r) == 15][1:]
age, education, hours = (np.array([float(r[i]) for r in rows], np.float32) for i in (0, 4, 12))
label = np.array([int(r[14].startswith(">")) for r in rows])
weight = np.array([float(r[2]) for r in rows])
logit = np.float32(0.03125) * age + np.float32(0.25) * education + np.float32(0.03125) * hours - np.float32(6.5)
score = np.clip(logit / np.float32(8) + np.float32(0.5), np.float32(1 / 64), np.float32(63 / 64)).astype(np.float32)
predicted = score > 0.5
double = score.astype(np.float64)
for name, w in (("", None), ("weighted ", weight)):
    table = {
        "auc": metrics.roc_auc_score(label, score, sample_weight=w),
        "accuracy": metrics.accuracy_score(label, predicted, sample_weight=w),
        "log_loss": metrics.log_loss(label, double, sample_weight=w),
        "precision": metrics.precision_score(label, predicted, sample_weight=w),
        "recall": metrics.recall_score(label, predicted, sample_weight=w),
        "f1": metrics.f1_score(label, predicted, sample_weight=w),
        "calibration": np.average(double, weights=w) / np.average(label, weights=w),
        "rmse": metrics.mean_squared_error(label, double, sample_weight=w, squared=False),
        "mae": metrics.mean_absolute_error(label, double, sample_weight=w),
        "r2": metrics.r2_score(label, double, sample_weight=w),
    }
    for key, value in table.items():
        print(f"{name}{key},{float(value)!r}")
