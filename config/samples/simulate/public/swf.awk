# Turns a log in the Standard Workload Format, as the Parallel Workloads Archive has them, into a trace for `simulate`:
#
#   awk -v from=112 -v until=168 -f swf.awk KTH-SP2-1996-2.1-cln.swf > kth.csv
#
# `from` and `until` are days since the log began: a part of it is played sooner than all of it. Each processor is a pod
# that requests one cpu. The LocalQueue is swf/queue-N for queue N of the log, or swf/main if the log has no queues. Jobs
# of which the log does not say how long they ran, or on how many processors, are left out.
BEGIN { print "name,arrival,duration,queue,count,cpu" }

/^[ \t]*(;|$)/ { next }

{
    submitted = $2; ran = $4; allocated = $5; requested = $8; queue = $15
    processors = requested > 0 ? requested : allocated
    if (ran <= 0 || processors <= 0) next
    if (submitted < from * 86400 || (until != "" && submitted >= until * 86400)) next
    printf "job-%s,%d,%d,swf/%s,%d,1\n", $1, submitted - from * 86400, ran,
        (queue < 0 ? "main" : "queue-" queue), processors
}
