; Generated from cores.c by tests.codegen.c_code: do not edit.

@.str = private unnamed_addr constant [23 x i8] c"/sys/fs/cgroup/cpu.max\00", align 1
@.str.1 = private unnamed_addr constant [36 x i8] c"/sys/fs/cgroup/cpu/cpu.cfs_quota_us\00", align 1
@.str.2 = private unnamed_addr constant [37 x i8] c"/sys/fs/cgroup/cpu/cpu.cfs_period_us\00", align 1

define linkonce_odr noundef i64 @disc.look_at_cores(i64 noundef %0) local_unnamed_addr {
  %2 = alloca [16 x i64], align 8
  call void @llvm.lifetime.start.p0(ptr nonnull %2)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(128) %2, i8 0, i64 128, i1 false)
  %3 = call i32 @sched_getaffinity(i32 noundef 0, i64 noundef 128, ptr noundef nonnull %2)
  %4 = icmp sgt i32 %3, -1
  %5 = inttoptr i64 %0 to ptr
  br i1 %4, label %6, label %17

6:
  %7 = phi i64 [ %15, %6 ], [ 0, %1 ]
  %8 = phi i64 [ %14, %6 ], [ 0, %1 ]
  %9 = getelementptr inbounds nuw i64, ptr %2, i64 %7
  %10 = load i64, ptr %9, align 8
  %11 = getelementptr inbounds nuw i64, ptr %5, i64 %7
  %12 = getelementptr inbounds nuw i8, ptr %11, i64 64
  store atomic i64 %10, ptr %12 release, align 8
  %13 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %10)
  %14 = add nuw nsw i64 %13, %8
  %15 = add nuw nsw i64 %7, 1
  %16 = icmp eq i64 %15, 16
  br i1 %16, label %17, label %6

17:
  %18 = phi i64 [ 0, %1 ], [ %14, %6 ]
  %19 = getelementptr inbounds nuw i8, ptr %5, i64 24
  %20 = load atomic i64, ptr %19 seq_cst, align 8
  %21 = icmp sgt i64 %20, 0
  %22 = call i64 @llvm.smin.i64(i64 %20, i64 %18)
  %23 = select i1 %21, i64 %22, i64 %18
  %24 = call i64 @llvm.smax.i64(i64 %23, i64 1)
  %25 = getelementptr inbounds nuw i8, ptr %5, i64 16
  store atomic i64 %24, ptr %25 release, align 8
  call void @llvm.lifetime.end.p0(ptr nonnull %2)
  ret i64 0
}

declare void @llvm.lifetime.start.p0(ptr captures(none))

declare void @llvm.memset.p0.i64(ptr writeonly captures(none), i8, i64, i1 immarg)

declare i32 @sched_getaffinity(i32 noundef, i64 noundef, ptr noundef) local_unnamed_addr

declare i64 @llvm.ctpop.i64(i64)

declare void @llvm.lifetime.end.p0(ptr captures(none))

define linkonce_odr range(i64 0, 2) i64 @disc.leave_core(i64 noundef %0, i32 noundef %1, i32 noundef %2) local_unnamed_addr {
  %4 = alloca [16 x i64], align 8
  %5 = icmp ugt i32 %2, 1023
  br i1 %5, label %39, label %6

6:
  %7 = and i32 %2, 63
  %8 = zext nneg i32 %7 to i64
  %9 = shl nuw i64 1, %8
  %10 = lshr i32 %2, 6
  %11 = inttoptr i64 %0 to ptr
  %12 = zext nneg i32 %10 to i64
  %13 = getelementptr inbounds nuw i64, ptr %11, i64 %12
  %14 = getelementptr inbounds nuw i8, ptr %13, i64 64
  %15 = load atomic i64, ptr %14 seq_cst, align 8
  %16 = and i64 %15, %9
  %17 = icmp eq i64 %16, 0
  br i1 %17, label %39, label %18

18:
  call void @llvm.lifetime.start.p0(ptr nonnull %4)
  %19 = xor i64 %9, -1
  br label %22

20:
  %21 = icmp eq i64 %32, 0
  br i1 %21, label %37, label %35

22:
  %23 = phi i64 [ 0, %18 ], [ %33, %22 ]
  %24 = phi i64 [ 0, %18 ], [ %32, %22 ]
  %25 = getelementptr inbounds nuw i64, ptr %11, i64 %23
  %26 = getelementptr inbounds nuw i8, ptr %25, i64 64
  %27 = load atomic i64, ptr %26 seq_cst, align 8
  %28 = icmp eq i64 %23, %12
  %29 = select i1 %28, i64 %19, i64 -1
  %30 = and i64 %27, %29
  %31 = getelementptr inbounds nuw i64, ptr %4, i64 %23
  store i64 %30, ptr %31, align 8
  %32 = or i64 %30, %24
  %33 = add nuw nsw i64 %23, 1
  %34 = icmp eq i64 %33, 16
  br i1 %34, label %20, label %22

35:
  %36 = call i32 @sched_setaffinity(i32 noundef %1, i64 noundef 128, ptr noundef nonnull %4)
  br label %37

37:
  %38 = phi i64 [ 0, %35 ], [ 1, %20 ]
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  br label %39

39:
  %40 = phi i64 [ 0, %3 ], [ %38, %37 ], [ 0, %6 ]
  ret i64 %40
}

declare i32 @sched_setaffinity(i32 noundef, i64 noundef, ptr noundef) local_unnamed_addr

define linkonce_odr noundef i64 @disc.settle(i64 noundef %0) local_unnamed_addr {
  %2 = alloca [16 x i64], align 8
  call void @llvm.lifetime.start.p0(ptr nonnull %2)
  %3 = inttoptr i64 %0 to ptr
  br label %6

4:
  %5 = call i32 @sched_setaffinity(i32 noundef 0, i64 noundef 128, ptr noundef nonnull %2)
  call void @llvm.lifetime.end.p0(ptr nonnull %2)
  ret i64 0

6:
  %7 = phi i64 [ 0, %1 ], [ %12, %6 ]
  %8 = getelementptr inbounds nuw i64, ptr %3, i64 %7
  %9 = getelementptr inbounds nuw i8, ptr %8, i64 64
  %10 = load atomic i64, ptr %9 seq_cst, align 8
  %11 = getelementptr inbounds nuw i64, ptr %2, i64 %7
  store i64 %10, ptr %11, align 8
  %12 = add nuw nsw i64 %7, 1
  %13 = icmp eq i64 %12, 16
  br i1 %13, label %4, label %6
}

define linkonce_odr range(i64 0, 2) i64 @disc.step_aside(i64 noundef %0, i32 noundef %1) local_unnamed_addr {
  %3 = alloca [16 x i64], align 8
  %4 = tail call i32 @sched_getcpu()
  %5 = icmp eq i32 %4, %1
  br i1 %5, label %6, label %29

6:
  %7 = inttoptr i64 %0 to ptr
  %8 = getelementptr inbounds nuw i8, ptr %7, i64 336
  %9 = load atomic i64, ptr %8 seq_cst, align 8
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %11, label %29

11:
  %12 = tail call i64 @disc.leave_core(i64 noundef %0, i32 noundef 0, i32 noundef %1)
  %13 = icmp eq i64 %12, 0
  br i1 %13, label %14, label %29

14:
  %15 = tail call i32 @sched_getcpu()
  %16 = icmp eq i32 %15, %1
  br i1 %16, label %17, label %18

17:
  store atomic i64 1, ptr %8 release, align 8
  br label %18

18:
  call void @llvm.lifetime.start.p0(ptr nonnull %3)
  br label %19

19:
  %20 = phi i64 [ 0, %18 ], [ %25, %19 ]
  %21 = getelementptr inbounds nuw i64, ptr %7, i64 %20
  %22 = getelementptr inbounds nuw i8, ptr %21, i64 64
  %23 = load atomic i64, ptr %22 seq_cst, align 8
  %24 = getelementptr inbounds nuw i64, ptr %3, i64 %20
  store i64 %23, ptr %24, align 8
  %25 = add nuw nsw i64 %20, 1
  %26 = icmp eq i64 %25, 16
  br i1 %26, label %27, label %19

27:
  %28 = call i32 @sched_setaffinity(i32 noundef 0, i64 noundef 128, ptr noundef nonnull %3)
  call void @llvm.lifetime.end.p0(ptr nonnull %3)
  br label %29

29:
  %30 = phi i64 [ 0, %27 ], [ 0, %2 ], [ 0, %6 ], [ 1, %11 ]
  ret i64 %30
}

declare i32 @sched_getcpu() local_unnamed_addr

define linkonce_odr range(i64 0, 2) i64 @disc.send_away(i64 noundef %0, i64 noundef %1) local_unnamed_addr {
  %3 = inttoptr i64 %0 to ptr
  %4 = getelementptr inbounds nuw i8, ptr %3, i64 336
  %5 = load atomic i64, ptr %4 seq_cst, align 8
  %6 = icmp eq i64 %5, 0
  br i1 %6, label %7, label %11

7:
  %8 = trunc i64 %1 to i32
  %9 = tail call i32 @sched_getcpu()
  %10 = tail call i64 @disc.leave_core(i64 noundef %0, i32 noundef %8, i32 noundef %9)
  br label %11

11:
  %12 = phi i64 [ %10, %7 ], [ 0, %2 ]
  ret i64 %12
}

define linkonce_odr noundef i64 @disc.settle_worker(i64 noundef %0) local_unnamed_addr {
  %2 = alloca [16 x i64], align 8
  %3 = inttoptr i64 %0 to ptr
  %4 = getelementptr inbounds nuw i8, ptr %3, i64 336
  %5 = load atomic i64, ptr %4 seq_cst, align 8
  %6 = icmp eq i64 %5, 0
  br i1 %6, label %7, label %18

7:
  call void @llvm.lifetime.start.p0(ptr nonnull %2)
  br label %8

8:
  %9 = phi i64 [ 0, %7 ], [ %14, %8 ]
  %10 = getelementptr inbounds nuw i64, ptr %3, i64 %9
  %11 = getelementptr inbounds nuw i8, ptr %10, i64 64
  %12 = load atomic i64, ptr %11 seq_cst, align 8
  %13 = getelementptr inbounds nuw i64, ptr %2, i64 %9
  store i64 %12, ptr %13, align 8
  %14 = add nuw nsw i64 %9, 1
  %15 = icmp eq i64 %14, 16
  br i1 %15, label %16, label %8

16:
  %17 = call i32 @sched_setaffinity(i32 noundef 0, i64 noundef 128, ptr noundef nonnull %2)
  call void @llvm.lifetime.end.p0(ptr nonnull %2)
  br label %18

18:
  ret i64 0
}

define linkonce_odr noundef i64 @disc.read_quota(i64 noundef %0) local_unnamed_addr {
  %2 = alloca [2 x i64], align 8
  call void @llvm.lifetime.start.p0(ptr nonnull %2)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(16) %2, i8 0, i64 16, i1 false)
  call fastcc void @read_numbers(ptr noundef nonnull @.str, ptr noundef %2, i32 noundef 2)
  %3 = getelementptr inbounds nuw i8, ptr %2, i64 8
  %4 = load i64, ptr %3, align 8
  %5 = icmp eq i64 %4, 0
  br i1 %5, label %6, label %8

6:
  call fastcc void @read_numbers(ptr noundef nonnull @.str.1, ptr noundef %2, i32 noundef 1)
  call fastcc void @read_numbers(ptr noundef nonnull @.str.2, ptr noundef %3, i32 noundef 1)
  %7 = load i64, ptr %3, align 8
  br label %8

8:
  %9 = phi i64 [ %7, %6 ], [ %4, %1 ]
  %10 = load i64, ptr %2, align 8
  %11 = icmp sgt i64 %10, 0
  %12 = icmp sgt i64 %9, 0
  %13 = select i1 %11, i1 %12, i1 false
  br i1 %13, label %14, label %20

14:
  %15 = add nsw i64 %10, -1
  %16 = add nuw i64 %15, %9
  %17 = udiv i64 %16, %9
  %18 = inttoptr i64 %0 to ptr
  %19 = getelementptr inbounds nuw i8, ptr %18, i64 24
  store atomic i64 %17, ptr %19 release, align 8
  br label %20

20:
  call void @llvm.lifetime.end.p0(ptr nonnull %2)
  ret i64 0
}

define internal fastcc void @read_numbers(ptr noundef readonly captures(none) %0, ptr noundef nonnull writeonly captures(none) %1, i32 noundef range(i32 1, 3) %2) unnamed_addr {
  %4 = alloca [64 x i8], align 1
  %5 = alloca ptr, align 8
  call void @llvm.lifetime.start.p0(ptr nonnull %4)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 1 dereferenceable(64) %4, i8 0, i64 64, i1 false)
  call void @llvm.lifetime.start.p0(ptr nonnull %5)
  store ptr %4, ptr %5, align 8
  %6 = call i32 (ptr, i32, ...) @open(ptr noundef %0, i32 noundef 0)
  %7 = icmp slt i32 %6, 0
  br i1 %7, label %22, label %8

8:
  %9 = call i64 @read(i32 noundef %6, ptr noundef nonnull %4, i64 noundef 63)
  %10 = icmp sgt i64 %9, 0
  br i1 %10, label %11, label %20

11:
  %12 = zext nneg i32 %2 to i64
  br label %13

13:
  %14 = phi i64 [ 0, %11 ], [ %18, %13 ]
  %15 = load ptr, ptr %5, align 8
  %16 = call i64 @strtoll(ptr noundef %15, ptr noundef nonnull %5, i32 noundef 10)
  %17 = getelementptr inbounds nuw i64, ptr %1, i64 %14
  store i64 %16, ptr %17, align 8
  %18 = add nuw nsw i64 %14, 1
  %19 = icmp eq i64 %18, %12
  br i1 %19, label %20, label %13

20:
  %21 = call i32 @close(i32 noundef %6)
  br label %22

22:
  call void @llvm.lifetime.end.p0(ptr nonnull %5)
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  ret void
}

declare noundef i32 @open(ptr noundef readonly captures(none), i32 noundef, ...) local_unnamed_addr

declare noundef i64 @read(i32 noundef, ptr noundef captures(none), i64 noundef) local_unnamed_addr

declare i64 @strtoll(ptr noundef readonly, ptr noundef captures(none), i32 noundef) local_unnamed_addr

declare i32 @close(i32 noundef) local_unnamed_addr

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.smin.i64(i64, i64)
