; Generated from loop.c by tests.codegen.c_code: do not edit.

%struct.Entry = type { float, float, i32 }
%struct.Any = type { i32, i32, i64 }
%struct.timespec = type { i64, i64 }

define linkonce_odr range(i64 -1, 2) i64 @disc.generate(i64 noundef %0, i64 noundef %1) local_unnamed_addr {
  %3 = alloca %struct.Entry, align 4
  %4 = alloca %struct.Entry, align 4
  %5 = alloca [16 x float], align 4
  %6 = alloca [16 x float], align 4
  %7 = alloca <16 x float>, align 64
  %8 = alloca <16 x float>, align 64
  %9 = alloca [16 x float], align 4
  %10 = alloca [16 x float], align 4
  %11 = alloca [16 x float], align 4
  %12 = alloca %struct.Any, align 8
  %13 = alloca %struct.timespec, align 8
  %14 = alloca %struct.timespec, align 8
  %15 = inttoptr i64 %1 to ptr
  %16 = getelementptr inbounds nuw i8, ptr %15, i64 104
  %17 = load i64, ptr %16, align 8
  %18 = inttoptr i64 %17 to ptr
  %19 = getelementptr inbounds nuw i8, ptr %15, i64 192
  %20 = load i64, ptr %19, align 8
  %21 = inttoptr i64 %20 to ptr
  call void @llvm.lifetime.start.p0(ptr nonnull %13)
  %22 = call i32 @clock_gettime(i32 noundef 1, ptr noundef nonnull %13)
  %23 = load i64, ptr %13, align 8
  %24 = getelementptr inbounds nuw i8, ptr %13, i64 8
  %25 = load i64, ptr %24, align 8
  call void @llvm.lifetime.end.p0(ptr nonnull %13)
  %26 = getelementptr inbounds nuw i8, ptr %15, i64 120
  %27 = getelementptr inbounds nuw i8, ptr %15, i64 112
  %28 = getelementptr inbounds nuw i8, ptr %15, i64 96
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(16) %27, i8 0, i64 16, i1 false)
  %29 = load i64, ptr %28, align 8
  %30 = icmp sgt i64 %29, 0
  br i1 %30, label %31, label %1171

31:
  %32 = getelementptr inbounds nuw i8, ptr %15, i64 80
  %33 = getelementptr inbounds nuw i8, ptr %15, i64 72
  %34 = inttoptr i64 %0 to ptr
  %35 = getelementptr inbounds nuw i8, ptr %34, i64 24
  %36 = getelementptr inbounds nuw i8, ptr %15, i64 8
  %37 = getelementptr inbounds nuw i8, ptr %15, i64 32
  %38 = getelementptr inbounds nuw i8, ptr %15, i64 24
  %39 = getelementptr inbounds nuw i8, ptr %15, i64 48
  %40 = getelementptr inbounds nuw i8, ptr %15, i64 40
  %41 = getelementptr inbounds nuw i8, ptr %15, i64 56
  %42 = getelementptr inbounds nuw i8, ptr %15, i64 88
  %43 = getelementptr inbounds nuw i8, ptr %15, i64 16
  %44 = getelementptr inbounds nuw i8, ptr %15, i64 64
  %45 = getelementptr inbounds nuw i8, ptr %15, i64 184
  %46 = getelementptr inbounds nuw i8, ptr %15, i64 144
  %47 = getelementptr inbounds nuw i8, ptr %15, i64 168
  %48 = getelementptr inbounds nuw i8, ptr %15, i64 152
  %49 = getelementptr inbounds nuw i8, ptr %15, i64 200
  %50 = getelementptr inbounds nuw i8, ptr %15, i64 176
  %51 = getelementptr inbounds nuw i8, ptr %15, i64 160
  %52 = getelementptr inbounds nuw i8, ptr %15, i64 136
  %53 = getelementptr inbounds nuw i8, ptr %15, i64 128
  %54 = getelementptr inbounds nuw i8, ptr %15, i64 208
  %55 = getelementptr inbounds nuw i8, ptr %14, i64 8
  br label %56

56:
  %57 = phi i64 [ 0, %31 ], [ %1168, %1167 ]
  %58 = load i64, ptr %32, align 8
  %59 = mul nsw i64 %58, %57
  %60 = load i64, ptr %33, align 8
  %61 = icmp eq i64 %60, 0
  br i1 %61, label %62, label %118

62:
  call void @llvm.lifetime.start.p0(ptr nonnull %12)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(16) %12, i8 0, i64 16, i1 false)
  %63 = load ptr, ptr %35, align 8
  %64 = load i64, ptr %15, align 8
  %65 = inttoptr i64 %64 to ptr
  %66 = load i64, ptr %36, align 8
  %67 = trunc i64 %66 to i32
  %68 = call i32 %63(ptr noundef %34, ptr noundef %65, i32 noundef %67, ptr noundef nonnull %12)
  %69 = icmp eq i32 %68, 0
  br i1 %69, label %70, label %117

70:
  %71 = load i64, ptr %37, align 8
  %72 = inttoptr i64 %71 to ptr
  %73 = load i64, ptr %38, align 8
  %74 = inttoptr i64 %73 to ptr
  %75 = load i64, ptr %39, align 8
  %76 = inttoptr i64 %75 to ptr
  %77 = load i64, ptr %40, align 8
  %78 = icmp sgt i64 %77, 0
  br i1 %78, label %82, label %79

79:
  %80 = load i64, ptr %32, align 8
  %81 = icmp sgt i64 %80, 0
  br i1 %81, label %94, label %90

82:
  %83 = phi i64 [ %87, %82 ], [ 0, %70 ]
  %84 = getelementptr inbounds nuw i64, ptr %72, i64 %83
  %85 = load i64, ptr %84, align 8
  %86 = add nsw i64 %85, 1
  store i64 %86, ptr %84, align 8
  %87 = add nuw nsw i64 %83, 1
  %88 = load i64, ptr %40, align 8
  %89 = icmp slt i64 %87, %88
  br i1 %89, label %82, label %79

90:
  %91 = phi i64 [ %80, %79 ], [ %100, %94 ]
  %92 = load i64, ptr %41, align 8
  %93 = icmp sgt i64 %92, 0
  br i1 %93, label %105, label %102

94:
  %95 = phi i64 [ %99, %94 ], [ 0, %79 ]
  %96 = getelementptr inbounds nuw i64, ptr %74, i64 %95
  %97 = load i64, ptr %96, align 8
  %98 = add nsw i64 %97, 1
  store i64 %98, ptr %96, align 8
  %99 = add nuw nsw i64 %95, 1
  %100 = load i64, ptr %32, align 8
  %101 = icmp slt i64 %99, %100
  br i1 %101, label %94, label %90

102:
  %103 = load i64, ptr %26, align 8
  %104 = add nsw i64 %103, 1
  store i64 %104, ptr %26, align 8
  call void @llvm.lifetime.end.p0(ptr nonnull %12)
  br label %118

105:
  %106 = phi i64 [ %115, %105 ], [ 0, %90 ]
  %107 = shl nuw nsw i64 %106, 4
  %108 = getelementptr inbounds nuw i8, ptr %76, i64 %107
  %109 = load ptr, ptr %108, align 8
  %110 = load ptr, ptr %109, align 8
  %111 = getelementptr inbounds nuw i8, ptr %108, i64 8
  %112 = load ptr, ptr %111, align 8
  %113 = load ptr, ptr %112, align 8
  store ptr %113, ptr %109, align 8
  %114 = load ptr, ptr %111, align 8
  store ptr %110, ptr %114, align 8
  %115 = add nuw nsw i64 %106, 1
  %116 = icmp eq i64 %115, %92
  br i1 %116, label %102, label %105

117:
  call void @llvm.lifetime.end.p0(ptr nonnull %12)
  br label %1171

118:
  %119 = phi i64 [ %91, %102 ], [ %58, %56 ]
  store i64 0, ptr %33, align 8
  %120 = getelementptr inbounds i64, ptr %18, i64 %59
  %121 = getelementptr inbounds double, ptr %21, i64 %59
  %122 = load i64, ptr %42, align 8
  %123 = load i64, ptr %43, align 8
  %124 = inttoptr i64 %123 to ptr
  %125 = load i64, ptr %44, align 8
  %126 = inttoptr i64 %125 to ptr
  %127 = load i64, ptr %45, align 8
  %128 = inttoptr i64 %127 to ptr
  %129 = load i64, ptr %46, align 8
  %130 = inttoptr i64 %129 to ptr
  %131 = icmp sgt i64 %119, 0
  br i1 %131, label %132, label %1135

132:
  %133 = icmp sgt i64 %122, 0
  br label %140

134:
  br i1 %184, label %135, label %1171

135:
  %136 = icmp eq i64 %127, 0
  %137 = icmp sgt i64 %122, 0
  %138 = add i64 %122, -1
  %139 = shl i64 %122, 2
  br label %186

140:
  %141 = phi i64 [ 0, %132 ], [ %182, %181 ]
  %142 = mul nsw i64 %141, %122
  %143 = getelementptr inbounds float, ptr %126, i64 %142
  br i1 %133, label %146, label %144

144:
  %145 = phi <16 x i32> [ zeroinitializer, %140 ], [ %171, %168 ]
  br label %174

146:
  %147 = phi i64 [ %172, %168 ], [ 0, %140 ]
  %148 = phi <16 x i32> [ %171, %168 ], [ zeroinitializer, %140 ]
  %149 = sub nsw i64 %122, %147
  %150 = icmp slt i64 %149, 16
  %151 = getelementptr inbounds nuw float, ptr %143, i64 %147
  br i1 %150, label %152, label %166

152:
  call void @llvm.lifetime.start.p0(ptr nonnull %9)
  br label %153

153:
  %154 = phi i64 [ 0, %152 ], [ %162, %159 ]
  %155 = icmp sgt i64 %149, %154
  br i1 %155, label %156, label %159

156:
  %157 = getelementptr inbounds nuw float, ptr %151, i64 %154
  %158 = load float, ptr %157, align 4
  br label %159

159:
  %160 = phi float [ %158, %156 ], [ 0xFFF0000000000000, %153 ]
  %161 = getelementptr inbounds nuw float, ptr %9, i64 %154
  store float %160, ptr %161, align 4
  %162 = add nuw nsw i64 %154, 1
  %163 = icmp eq i64 %162, 16
  br i1 %163, label %164, label %153

164:
  %165 = load <16 x float>, ptr %9, align 4
  call void @llvm.lifetime.end.p0(ptr nonnull %9)
  br label %168

166:
  %167 = load <16 x float>, ptr %151, align 4
  br label %168

168:
  %169 = phi <16 x float> [ %165, %164 ], [ %167, %166 ]
  %170 = fcmp uno <16 x float> %169, zeroinitializer
  %171 = select <16 x i1> %170, <16 x i32> splat (i32 -1), <16 x i32> %148
  %172 = add nuw nsw i64 %147, 16
  %173 = icmp slt i64 %172, %122
  br i1 %173, label %146, label %144

174:
  %175 = phi i32 [ 0, %144 ], [ %179, %174 ]
  %176 = phi i32 [ 0, %144 ], [ %178, %174 ]
  %177 = extractelement <16 x i32> %145, i32 %175
  %178 = or i32 %177, %176
  %179 = add nuw nsw i32 %175, 1
  %180 = icmp eq i32 %179, 16
  br i1 %180, label %181, label %174

181:
  %182 = add nuw nsw i64 %141, 1
  %183 = icmp slt i64 %182, %119
  %184 = icmp eq i32 %178, 0
  %185 = select i1 %183, i1 %184, i1 false
  br i1 %185, label %140, label %134

186:
  %187 = phi i64 [ 0, %135 ], [ %1132, %1129 ]
  %188 = mul i64 %139, %187
  %189 = mul nsw i64 %187, %122
  %190 = getelementptr inbounds float, ptr %126, i64 %189
  br i1 %136, label %214, label %191

191:
  %192 = getelementptr inbounds i8, ptr %128, i64 %189
  %193 = load double, ptr %47, align 8
  %194 = load i64, ptr %42, align 8
  %195 = icmp sgt i64 %194, 0
  br i1 %195, label %196, label %214

196:
  %197 = fdiv double 1.000000e+00, %193
  br label %198

198:
  %199 = phi i64 [ 0, %196 ], [ %212, %211 ]
  %200 = getelementptr inbounds nuw i8, ptr %192, i64 %199
  %201 = load i8, ptr %200, align 1
  %202 = icmp eq i8 %201, 0
  br i1 %202, label %211, label %203

203:
  %204 = getelementptr inbounds nuw float, ptr %190, i64 %199
  %205 = load float, ptr %204, align 4
  %206 = fpext float %205 to double
  %207 = fcmp ogt float %205, 0.000000e+00
  %208 = select i1 %207, double %197, double %193
  %209 = fmul double %208, %206
  %210 = fptrunc double %209 to float
  store float %210, ptr %204, align 4
  br label %211

211:
  %212 = add nuw nsw i64 %199, 1
  %213 = icmp eq i64 %212, %194
  br i1 %213, label %214, label %198

214:
  br i1 %137, label %217, label %215

215:
  %216 = phi <16 x float> [ splat (float 0xFFF0000000000000), %214 ], [ %242, %239 ]
  br label %245

217:
  %218 = phi <16 x float> [ %242, %239 ], [ splat (float 0xFFF0000000000000), %214 ]
  %219 = phi i64 [ %243, %239 ], [ 0, %214 ]
  %220 = sub nsw i64 %122, %219
  %221 = icmp slt i64 %220, 16
  %222 = getelementptr inbounds nuw float, ptr %190, i64 %219
  br i1 %221, label %223, label %237

223:
  call void @llvm.lifetime.start.p0(ptr nonnull %10)
  br label %224

224:
  %225 = phi i64 [ 0, %223 ], [ %233, %230 ]
  %226 = icmp sgt i64 %220, %225
  br i1 %226, label %227, label %230

227:
  %228 = getelementptr inbounds nuw float, ptr %222, i64 %225
  %229 = load float, ptr %228, align 4
  br label %230

230:
  %231 = phi float [ %229, %227 ], [ 0xFFF0000000000000, %224 ]
  %232 = getelementptr inbounds nuw float, ptr %10, i64 %225
  store float %231, ptr %232, align 4
  %233 = add nuw nsw i64 %225, 1
  %234 = icmp eq i64 %233, 16
  br i1 %234, label %235, label %224

235:
  %236 = load <16 x float>, ptr %10, align 4
  call void @llvm.lifetime.end.p0(ptr nonnull %10)
  br label %239

237:
  %238 = load <16 x float>, ptr %222, align 4
  br label %239

239:
  %240 = phi <16 x float> [ %236, %235 ], [ %238, %237 ]
  %241 = fcmp ogt <16 x float> %240, %218
  %242 = select <16 x i1> %241, <16 x float> %240, <16 x float> %218
  %243 = add nuw nsw i64 %219, 16
  %244 = icmp slt i64 %243, %122
  br i1 %244, label %217, label %215

245:
  %246 = phi i32 [ 0, %215 ], [ %251, %245 ]
  %247 = phi float [ 0xFFF0000000000000, %215 ], [ %250, %245 ]
  %248 = extractelement <16 x float> %216, i32 %246
  %249 = fcmp ogt float %248, %247
  %250 = select i1 %249, float %248, float %247
  %251 = add nuw nsw i32 %246, 1
  %252 = icmp eq i32 %251, 16
  br i1 %252, label %253, label %245

253:
  %254 = load double, ptr %48, align 8
  %255 = fcmp oeq double %254, 0.000000e+00
  br i1 %255, label %256, label %291

256:
  %257 = insertelement <16 x float> poison, float %250, i64 0
  %258 = shufflevector <16 x float> %257, <16 x float> poison, <16 x i32> zeroinitializer
  br label %259

259:
  %260 = phi i64 [ %261, %272 ], [ 0, %256 ]
  %261 = add nuw nsw i64 %260, 256
  %262 = icmp sgt i64 %261, %122
  br i1 %262, label %281, label %263

263:
  %264 = phi i64 [ %270, %263 ], [ %260, %259 ]
  %265 = phi <16 x i32> [ %269, %263 ], [ zeroinitializer, %259 ]
  %266 = getelementptr inbounds nuw float, ptr %190, i64 %264
  %267 = load <16 x float>, ptr %266, align 4
  %268 = fcmp oeq <16 x float> %267, %258
  %269 = select <16 x i1> %268, <16 x i32> splat (i32 -1), <16 x i32> %265
  %270 = add nuw nsw i64 %264, 16
  %271 = icmp samesign ult i64 %270, %261
  br i1 %271, label %263, label %274

272:
  %273 = icmp eq i32 %278, 0
  br i1 %273, label %259, label %281

274:
  %275 = phi i32 [ %279, %274 ], [ 0, %263 ]
  %276 = phi i32 [ %278, %274 ], [ 0, %263 ]
  %277 = extractelement <16 x i32> %269, i32 %275
  %278 = or i32 %277, %276
  %279 = add nuw nsw i32 %275, 1
  %280 = icmp eq i32 %279, 16
  br i1 %280, label %272, label %274

281:
  %282 = icmp slt i64 %260, %138
  br i1 %282, label %283, label %1100

283:
  %284 = phi i64 [ %289, %288 ], [ %260, %281 ]
  %285 = getelementptr inbounds nuw float, ptr %190, i64 %284
  %286 = load float, ptr %285, align 4
  %287 = fcmp une float %286, %250
  br i1 %287, label %288, label %1100

288:
  %289 = add nuw i64 %284, 1
  %290 = icmp eq i64 %289, %138
  br i1 %290, label %1100, label %283

291:
  %292 = getelementptr inbounds nuw double, ptr %121, i64 %187
  %293 = load double, ptr %292, align 8
  %294 = load i64, ptr %42, align 8
  %295 = call float @llvm.fabs.f32(float %250)
  %296 = fcmp ueq float %295, 0x7FF0000000000000
  br i1 %296, label %297, label %328

297:
  %298 = icmp sgt i64 %294, 0
  br i1 %298, label %303, label %1100

299:
  %300 = uitofp nneg i64 %310 to double
  %301 = fmul double %293, %300
  %302 = fptosi double %301 to i64
  br label %313

303:
  %304 = phi i64 [ %311, %303 ], [ 0, %297 ]
  %305 = phi i64 [ %310, %303 ], [ 0, %297 ]
  %306 = getelementptr inbounds nuw float, ptr %190, i64 %304
  %307 = load float, ptr %306, align 4
  %308 = fcmp oeq float %307, %250
  %309 = zext i1 %308 to i64
  %310 = add nuw nsw i64 %305, %309
  %311 = add nuw nsw i64 %304, 1
  %312 = icmp eq i64 %311, %294
  br i1 %312, label %299, label %303

313:
  %314 = phi i64 [ %326, %323 ], [ 0, %299 ]
  %315 = phi i64 [ %325, %323 ], [ %302, %299 ]
  %316 = phi i64 [ %324, %323 ], [ 0, %299 ]
  %317 = getelementptr inbounds nuw float, ptr %190, i64 %314
  %318 = load float, ptr %317, align 4
  %319 = fcmp oeq float %318, %250
  br i1 %319, label %320, label %323

320:
  %321 = add nsw i64 %315, -1
  %322 = icmp eq i64 %315, 0
  br i1 %322, label %1100, label %323

323:
  %324 = phi i64 [ %314, %320 ], [ %316, %313 ]
  %325 = phi i64 [ %321, %320 ], [ %315, %313 ]
  %326 = add nuw nsw i64 %314, 1
  %327 = icmp eq i64 %326, %294
  br i1 %327, label %1100, label %313

328:
  %329 = load i64, ptr %49, align 8
  %330 = inttoptr i64 %329 to ptr
  %331 = getelementptr inbounds nuw i8, ptr %330, i64 8192
  %332 = getelementptr inbounds nuw i8, ptr %330, i64 16384
  %333 = getelementptr inbounds %struct.Entry, ptr %332, i64 %294
  %334 = getelementptr inbounds float, ptr %333, i64 %294
  %335 = fcmp ogt double %254, 0x380FFFFFFF9FDBA8
  %336 = fptrunc double %254 to float
  %337 = select i1 %335, float %336, float 0x3810000000000000
  %338 = insertelement <16 x float> poison, float %337, i64 0
  %339 = shufflevector <16 x float> %338, <16 x float> poison, <16 x i32> zeroinitializer
  %340 = icmp sgt i64 %294, 0
  br i1 %340, label %341, label %355

341:
  %342 = insertelement <16 x float> poison, float %250, i64 0
  %343 = shufflevector <16 x float> %342, <16 x float> poison, <16 x i32> zeroinitializer
  %344 = add nsw i64 %294, -1
  %345 = mul i64 %294, 12
  %346 = lshr i64 %344, 4
  %347 = getelementptr i8, ptr %330, i64 %345
  %348 = getelementptr i8, ptr %347, i64 16384
  %349 = getelementptr i8, ptr %126, i64 %188
  br label %360

350:
  %351 = load i64, ptr %50, align 8
  %352 = icmp slt i64 %351, 1
  %353 = icmp sge i64 %351, %294
  %354 = select i1 %352, i1 true, i1 %353
  br i1 %354, label %684, label %443

355:
  %356 = load i64, ptr %50, align 8
  %357 = icmp slt i64 %356, 1
  %358 = icmp sge i64 %356, %294
  %359 = select i1 %357, i1 true, i1 %358
  br i1 %359, label %684, label %440

360:
  %361 = phi i64 [ 0, %341 ], [ %438, %436 ]
  %362 = phi i64 [ 0, %341 ], [ %437, %436 ]
  %363 = shl i64 %361, 6
  %364 = getelementptr i8, ptr %348, i64 %363
  %365 = shl i64 %361, 4
  %366 = sub i64 %344, %365
  %367 = call i64 @llvm.umin.i64(i64 %366, i64 15)
  %368 = shl nuw nsw i64 %367, 2
  %369 = add nuw nsw i64 %368, 4
  %370 = getelementptr i8, ptr %349, i64 %363
  %371 = sub nsw i64 %294, %362
  %372 = icmp slt i64 %371, 16
  %373 = getelementptr inbounds nuw float, ptr %190, i64 %362
  br i1 %372, label %374, label %386

374:
  call void @llvm.lifetime.start.p0(ptr nonnull %11)
  br label %375

375:
  %376 = phi i64 [ 0, %374 ], [ %384, %381 ]
  %377 = icmp sgt i64 %371, %376
  br i1 %377, label %378, label %381

378:
  %379 = getelementptr inbounds nuw float, ptr %373, i64 %376
  %380 = load float, ptr %379, align 4
  br label %381

381:
  %382 = phi float [ %380, %378 ], [ %250, %375 ]
  %383 = getelementptr inbounds nuw float, ptr %11, i64 %376
  store float %382, ptr %383, align 4
  %384 = add nuw nsw i64 %376, 1
  %385 = icmp eq i64 %384, 16
  br i1 %385, label %409, label %375

386:
  %387 = load <16 x float>, ptr %373, align 4
  %388 = fsub <16 x float> %387, %343
  %389 = fdiv <16 x float> %388, %339
  store <16 x float> %389, ptr %373, align 4
  %390 = getelementptr inbounds nuw float, ptr %333, i64 %362
  %391 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %389, <16 x float> splat (float 0x3FF7154760000000), <16 x float> splat (float 0x4168000000000000))
  %392 = bitcast <16 x float> %391 to <16 x i32>
  %393 = fadd <16 x float> %391, splat (float 0xC168000000000000)
  %394 = fneg <16 x float> %393
  %395 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %394, <16 x float> splat (float 0x3FE62E4000000000), <16 x float> %389)
  %396 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %394, <16 x float> splat (float 0x3EB7F7D1C0000000), <16 x float> %395)
  %397 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %396, <16 x float> splat (float 0x3F56C16C20000000), <16 x float> splat (float 0x3F81111120000000))
  %398 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %397, <16 x float> %396, <16 x float> splat (float 0x3FA5555560000000))
  %399 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %398, <16 x float> %396, <16 x float> splat (float 0x3FC5555560000000))
  %400 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %399, <16 x float> %396, <16 x float> splat (float 5.000000e-01))
  %401 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %400, <16 x float> %396, <16 x float> splat (float 1.000000e+00))
  %402 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %401, <16 x float> %396, <16 x float> splat (float 1.000000e+00))
  %403 = bitcast <16 x float> %402 to <16 x i32>
  %404 = shl <16 x i32> %392, splat (i32 23)
  %405 = add <16 x i32> %404, %403
  %406 = fcmp ogt <16 x float> %389, splat (float -8.700000e+01)
  %407 = bitcast <16 x i32> %405 to <16 x float>
  %408 = select <16 x i1> %406, <16 x float> %407, <16 x float> zeroinitializer
  store <16 x float> %408, ptr %390, align 4
  br label %436

409:
  %410 = load <16 x float>, ptr %11, align 4
  call void @llvm.lifetime.end.p0(ptr nonnull %11)
  %411 = fsub <16 x float> %410, %343
  %412 = fdiv <16 x float> %411, %339
  call void @llvm.lifetime.start.p0(ptr nonnull %7)
  store <16 x float> %412, ptr %7, align 64
  %413 = icmp sgt i64 %371, 0
  br i1 %413, label %414, label %415

414:
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(1) %370, ptr noundef nonnull align 64 dereferenceable(1) %7, i64 %369, i1 false)
  br label %415

415:
  call void @llvm.lifetime.end.p0(ptr nonnull %7)
  %416 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %412, <16 x float> splat (float 0x3FF7154760000000), <16 x float> splat (float 0x4168000000000000))
  %417 = bitcast <16 x float> %416 to <16 x i32>
  %418 = fadd <16 x float> %416, splat (float 0xC168000000000000)
  %419 = fneg <16 x float> %418
  %420 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %419, <16 x float> splat (float 0x3FE62E4000000000), <16 x float> %412)
  %421 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %419, <16 x float> splat (float 0x3EB7F7D1C0000000), <16 x float> %420)
  %422 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %421, <16 x float> splat (float 0x3F56C16C20000000), <16 x float> splat (float 0x3F81111120000000))
  %423 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %422, <16 x float> %421, <16 x float> splat (float 0x3FA5555560000000))
  %424 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %423, <16 x float> %421, <16 x float> splat (float 0x3FC5555560000000))
  %425 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %424, <16 x float> %421, <16 x float> splat (float 5.000000e-01))
  %426 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %425, <16 x float> %421, <16 x float> splat (float 1.000000e+00))
  %427 = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %426, <16 x float> %421, <16 x float> splat (float 1.000000e+00))
  %428 = bitcast <16 x float> %427 to <16 x i32>
  %429 = shl <16 x i32> %417, splat (i32 23)
  %430 = add <16 x i32> %429, %428
  %431 = fcmp ogt <16 x float> %412, splat (float -8.700000e+01)
  %432 = bitcast <16 x i32> %430 to <16 x float>
  %433 = select <16 x i1> %431, <16 x float> %432, <16 x float> zeroinitializer
  call void @llvm.lifetime.start.p0(ptr nonnull %8)
  store <16 x float> %433, ptr %8, align 64
  br i1 %413, label %434, label %435

434:
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(1) %364, ptr noundef nonnull align 64 dereferenceable(1) %8, i64 %369, i1 false)
  br label %435

435:
  call void @llvm.lifetime.end.p0(ptr nonnull %8)
  br label %436

436:
  %437 = add nuw nsw i64 %362, 16
  %438 = add nuw nsw i64 %361, 1
  %439 = icmp eq i64 %361, %346
  br i1 %439, label %350, label %360

440:
  %441 = phi i64 [ %356, %355 ], [ %351, %465 ]
  %442 = phi <16 x float> [ zeroinitializer, %355 ], [ %468, %465 ]
  br label %471

443:
  %444 = phi <16 x float> [ %468, %465 ], [ zeroinitializer, %350 ]
  %445 = phi i64 [ %469, %465 ], [ 0, %350 ]
  %446 = sub nsw i64 %294, %445
  %447 = icmp slt i64 %446, 16
  %448 = getelementptr inbounds nuw float, ptr %190, i64 %445
  br i1 %447, label %449, label %463

449:
  call void @llvm.lifetime.start.p0(ptr nonnull %5)
  br label %450

450:
  %451 = phi i64 [ 0, %449 ], [ %459, %456 ]
  %452 = icmp sgt i64 %446, %451
  br i1 %452, label %453, label %456

453:
  %454 = getelementptr inbounds nuw float, ptr %448, i64 %451
  %455 = load float, ptr %454, align 4
  br label %456

456:
  %457 = phi float [ %455, %453 ], [ 0.000000e+00, %450 ]
  %458 = getelementptr inbounds nuw float, ptr %5, i64 %451
  store float %457, ptr %458, align 4
  %459 = add nuw nsw i64 %451, 1
  %460 = icmp eq i64 %459, 16
  br i1 %460, label %461, label %450

461:
  %462 = load <16 x float>, ptr %5, align 4
  call void @llvm.lifetime.end.p0(ptr nonnull %5)
  br label %465

463:
  %464 = load <16 x float>, ptr %448, align 4
  br label %465

465:
  %466 = phi <16 x float> [ %462, %461 ], [ %464, %463 ]
  %467 = fcmp olt <16 x float> %466, %444
  %468 = select <16 x i1> %467, <16 x float> %466, <16 x float> %444
  %469 = add nuw nsw i64 %445, 16
  %470 = icmp slt i64 %469, %294
  br i1 %470, label %443, label %440

471:
  %472 = phi i32 [ 0, %440 ], [ %479, %471 ]
  %473 = phi double [ 0.000000e+00, %440 ], [ %478, %471 ]
  %474 = extractelement <16 x float> %442, i32 %472
  %475 = fneg float %474
  %476 = fpext float %475 to double
  %477 = fcmp olt double %473, %476
  %478 = select i1 %477, double %476, double %473
  %479 = add nuw nsw i32 %472, 1
  %480 = icmp eq i32 %479, 16
  br i1 %480, label %481, label %471

481:
  %482 = fcmp olt double %478, 3.200000e+01
  %483 = select i1 %482, double %478, double 3.200000e+01
  %484 = fcmp ogt double %483, 1.000000e-30
  %485 = select i1 %484, double %483, double 1.000000e-30
  %486 = fdiv double -1.024000e+03, %485
  %487 = fptrunc double %486 to float
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(8192) %330, i8 0, i64 8192, i1 false)
  br i1 %340, label %488, label %502

488:
  %489 = phi i64 [ %500, %488 ], [ 0, %481 ]
  %490 = getelementptr inbounds nuw float, ptr %190, i64 %489
  %491 = load float, ptr %490, align 4
  %492 = fmul float %491, %487
  %493 = fcmp olt float %492, 1.023000e+03
  %494 = select i1 %493, float %492, float 1.023000e+03
  %495 = fptosi float %494 to i32
  %496 = sext i32 %495 to i64
  %497 = getelementptr inbounds i64, ptr %330, i64 %496
  %498 = load i64, ptr %497, align 8
  %499 = add nsw i64 %498, 1
  store i64 %499, ptr %497, align 8
  %500 = add nuw nsw i64 %489, 1
  %501 = icmp eq i64 %500, %294
  br i1 %501, label %502, label %488

502:
  br label %503

503:
  %504 = phi i64 [ %510, %503 ], [ 0, %502 ]
  %505 = phi i64 [ %508, %503 ], [ 0, %502 ]
  %506 = getelementptr inbounds nuw i64, ptr %330, i64 %504
  %507 = load i64, ptr %506, align 8
  %508 = add nsw i64 %507, %505
  %509 = icmp slt i64 %508, %441
  %510 = add nuw nsw i64 %504, 1
  br i1 %509, label %503, label %511

511:
  %512 = trunc nuw nsw i64 %504 to i32
  br i1 %340, label %513, label %690

513:
  %514 = phi i64 [ %532, %531 ], [ 0, %511 ]
  %515 = phi i64 [ %533, %531 ], [ 0, %511 ]
  %516 = getelementptr inbounds nuw float, ptr %190, i64 %515
  %517 = load float, ptr %516, align 4
  %518 = fmul float %517, %487
  %519 = fcmp olt float %518, 1.023000e+03
  %520 = select i1 %519, float %518, float 1.023000e+03
  %521 = fptosi float %520 to i32
  %522 = icmp eq i32 %512, %521
  br i1 %522, label %523, label %531

523:
  %524 = add nsw i64 %514, 1
  %525 = getelementptr inbounds %struct.Entry, ptr %332, i64 %514
  %526 = getelementptr inbounds nuw float, ptr %333, i64 %515
  %527 = load float, ptr %526, align 4
  %528 = trunc i64 %515 to i32
  store float %517, ptr %525, align 4
  %529 = getelementptr inbounds nuw i8, ptr %525, i64 4
  store float %527, ptr %529, align 4
  %530 = getelementptr inbounds nuw i8, ptr %525, i64 8
  store i32 %528, ptr %530, align 4
  br label %531

531:
  %532 = phi i64 [ %524, %523 ], [ %514, %513 ]
  %533 = add nuw nsw i64 %515, 1
  %534 = icmp eq i64 %533, %294
  br i1 %534, label %535, label %513

535:
  %536 = icmp sgt i64 %532, 1
  br i1 %536, label %537, label %661

537:
  %538 = lshr i64 %532, 1
  br label %541

539:
  %540 = getelementptr inbounds nuw i8, ptr %330, i64 16392
  br label %602

541:
  %542 = phi i64 [ %543, %597 ], [ %538, %537 ]
  %543 = add nsw i64 %542, -1
  %544 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %543
  %545 = load i64, ptr %544, align 4
  %546 = getelementptr inbounds nuw i8, ptr %544, i64 8
  %547 = load i32, ptr %546, align 4
  %548 = shl nuw nsw i64 %543, 1
  %549 = or disjoint i64 %548, 1
  %550 = icmp slt i64 %549, %532
  br i1 %550, label %551, label %597

551:
  %552 = trunc i64 %545 to i32
  %553 = bitcast i32 %552 to float
  br label %554

554:
  %555 = phi i64 [ %549, %551 ], [ %595, %592 ]
  %556 = phi i64 [ %548, %551 ], [ %594, %592 ]
  %557 = phi i64 [ %543, %551 ], [ %580, %592 ]
  %558 = add nuw nsw i64 %556, 2
  %559 = icmp slt i64 %558, %532
  br i1 %559, label %560, label %579

560:
  %561 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %555
  %562 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %558
  %563 = load i64, ptr %561, align 4
  %564 = getelementptr inbounds nuw i8, ptr %561, i64 8
  %565 = load i32, ptr %564, align 4
  %566 = load i64, ptr %562, align 4
  %567 = getelementptr inbounds nuw i8, ptr %562, i64 8
  %568 = load i32, ptr %567, align 4
  %569 = trunc i64 %563 to i32
  %570 = bitcast i32 %569 to float
  %571 = trunc i64 %566 to i32
  %572 = bitcast i32 %571 to float
  %573 = fcmp ule float %570, %572
  %574 = fcmp une float %570, %572
  %575 = icmp sge i32 %565, %568
  %576 = select i1 %574, i1 true, i1 %575
  %577 = select i1 %573, i1 %576, i1 false
  %578 = select i1 %577, i64 %555, i64 %558
  br label %579

579:
  %580 = phi i64 [ %555, %554 ], [ %578, %560 ]
  %581 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %580
  %582 = load i64, ptr %581, align 4
  %583 = getelementptr inbounds nuw i8, ptr %581, i64 8
  %584 = load i32, ptr %583, align 4
  %585 = trunc i64 %582 to i32
  %586 = bitcast i32 %585 to float
  %587 = fcmp ule float %553, %586
  %588 = fcmp une float %553, %586
  %589 = icmp sge i32 %547, %584
  %590 = select i1 %588, i1 true, i1 %589
  %591 = select i1 %587, i1 %590, i1 false
  br i1 %591, label %597, label %592

592:
  %593 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %557
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %593, ptr noundef nonnull align 4 dereferenceable(12) %581, i64 12, i1 false)
  %594 = shl nuw nsw i64 %580, 1
  %595 = or disjoint i64 %594, 1
  %596 = icmp slt i64 %595, %532
  br i1 %596, label %554, label %597

597:
  %598 = phi i64 [ %543, %541 ], [ %580, %592 ], [ %557, %579 ]
  %599 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %598
  store i64 %545, ptr %599, align 4
  %600 = getelementptr inbounds nuw i8, ptr %599, i64 8
  store i32 %547, ptr %600, align 4
  %601 = icmp sgt i64 %542, 1
  br i1 %601, label %541, label %539

602:
  %603 = phi i64 [ %532, %539 ], [ %604, %657 ]
  %604 = add nsw i64 %603, -1
  call void @llvm.lifetime.start.p0(ptr nonnull %4)
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %4, ptr noundef nonnull align 4 dereferenceable(12) %332, i64 12, i1 false)
  %605 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %604
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %332, ptr noundef nonnull align 4 dereferenceable(12) %605, i64 12, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %605, ptr noundef nonnull align 4 dereferenceable(12) %4, i64 12, i1 false)
  %606 = load i64, ptr %332, align 4
  %607 = load i32, ptr %540, align 4
  %608 = icmp sgt i64 %603, 2
  br i1 %608, label %611, label %609

609:
  %610 = getelementptr inbounds nuw i8, ptr %330, i64 16392
  store i32 %607, ptr %610, align 4
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  br label %661

611:
  %612 = trunc i64 %606 to i32
  %613 = bitcast i32 %612 to float
  br label %614

614:
  %615 = phi i64 [ 1, %611 ], [ %655, %652 ]
  %616 = phi i64 [ 0, %611 ], [ %654, %652 ]
  %617 = phi i64 [ 0, %611 ], [ %640, %652 ]
  %618 = add nuw nsw i64 %616, 2
  %619 = icmp slt i64 %618, %604
  br i1 %619, label %620, label %639

620:
  %621 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %615
  %622 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %618
  %623 = load i64, ptr %621, align 4
  %624 = getelementptr inbounds nuw i8, ptr %621, i64 8
  %625 = load i32, ptr %624, align 4
  %626 = load i64, ptr %622, align 4
  %627 = getelementptr inbounds nuw i8, ptr %622, i64 8
  %628 = load i32, ptr %627, align 4
  %629 = trunc i64 %623 to i32
  %630 = bitcast i32 %629 to float
  %631 = trunc i64 %626 to i32
  %632 = bitcast i32 %631 to float
  %633 = fcmp ule float %630, %632
  %634 = fcmp une float %630, %632
  %635 = icmp sge i32 %625, %628
  %636 = select i1 %634, i1 true, i1 %635
  %637 = select i1 %633, i1 %636, i1 false
  %638 = select i1 %637, i64 %615, i64 %618
  br label %639

639:
  %640 = phi i64 [ %615, %614 ], [ %638, %620 ]
  %641 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %640
  %642 = load i64, ptr %641, align 4
  %643 = getelementptr inbounds nuw i8, ptr %641, i64 8
  %644 = load i32, ptr %643, align 4
  %645 = trunc i64 %642 to i32
  %646 = bitcast i32 %645 to float
  %647 = fcmp ule float %613, %646
  %648 = fcmp une float %613, %646
  %649 = icmp sge i32 %607, %644
  %650 = select i1 %648, i1 true, i1 %649
  %651 = select i1 %647, i1 %650, i1 false
  br i1 %651, label %657, label %652

652:
  %653 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %617
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %653, ptr noundef nonnull align 4 dereferenceable(12) %641, i64 12, i1 false)
  %654 = shl nuw nsw i64 %640, 1
  %655 = or disjoint i64 %654, 1
  %656 = icmp slt i64 %655, %604
  br i1 %656, label %614, label %657

657:
  %658 = phi i64 [ %640, %652 ], [ %617, %639 ]
  %659 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %658
  store i64 %606, ptr %659, align 4
  %660 = getelementptr inbounds nuw i8, ptr %659, i64 8
  store i32 %607, ptr %660, align 4
  call void @llvm.lifetime.end.p0(ptr nonnull %4)
  br label %602

661:
  %662 = xor i64 %505, -1
  %663 = getelementptr %struct.Entry, ptr %332, i64 %441
  %664 = getelementptr %struct.Entry, ptr %663, i64 %662
  %665 = load float, ptr %664, align 4
  br label %666

666:
  %667 = phi i64 [ %682, %680 ], [ 0, %661 ]
  %668 = phi i64 [ %681, %680 ], [ 0, %661 ]
  %669 = getelementptr inbounds nuw float, ptr %190, i64 %667
  %670 = load float, ptr %669, align 4
  %671 = fcmp ult float %670, %665
  br i1 %671, label %680, label %672

672:
  %673 = trunc i64 %667 to i32
  %674 = getelementptr inbounds i32, ptr %334, i64 %668
  store i32 %673, ptr %674, align 4
  %675 = getelementptr inbounds float, ptr %190, i64 %668
  store float %670, ptr %675, align 4
  %676 = getelementptr inbounds nuw float, ptr %333, i64 %667
  %677 = load float, ptr %676, align 4
  %678 = add nsw i64 %668, 1
  %679 = getelementptr inbounds float, ptr %333, i64 %668
  store float %677, ptr %679, align 4
  br label %680

680:
  %681 = phi i64 [ %668, %666 ], [ %678, %672 ]
  %682 = add nuw nsw i64 %667, 1
  %683 = icmp eq i64 %682, %294
  br i1 %683, label %684, label %666

684:
  %685 = phi i1 [ true, %350 ], [ true, %355 ], [ false, %680 ]
  %686 = phi i32 [ 0, %350 ], [ 0, %355 ], [ 1, %680 ]
  %687 = phi i64 [ %294, %350 ], [ %294, %355 ], [ %681, %680 ]
  %688 = load double, ptr %51, align 8
  %689 = fcmp olt double %688, 1.000000e+00
  br i1 %689, label %693, label %994

690:
  %691 = load double, ptr %51, align 8
  %692 = fcmp olt double %691, 1.000000e+00
  br i1 %692, label %695, label %998

693:
  %694 = icmp sgt i64 %687, 0
  br i1 %694, label %701, label %695

695:
  %696 = phi i1 [ false, %693 ], [ false, %690 ], [ true, %723 ]
  %697 = phi i1 [ %685, %693 ], [ false, %690 ], [ %685, %723 ]
  %698 = phi i64 [ %687, %693 ], [ 0, %690 ], [ %687, %723 ]
  %699 = phi double [ %688, %693 ], [ %691, %690 ], [ %688, %723 ]
  %700 = phi <16 x float> [ zeroinitializer, %693 ], [ zeroinitializer, %690 ], [ %726, %723 ]
  br label %729

701:
  %702 = phi <16 x float> [ %726, %723 ], [ zeroinitializer, %693 ]
  %703 = phi i64 [ %727, %723 ], [ 0, %693 ]
  %704 = sub nsw i64 %687, %703
  %705 = icmp slt i64 %704, 16
  %706 = getelementptr inbounds nuw float, ptr %190, i64 %703
  br i1 %705, label %707, label %721

707:
  call void @llvm.lifetime.start.p0(ptr nonnull %6)
  br label %708

708:
  %709 = phi i64 [ 0, %707 ], [ %717, %714 ]
  %710 = icmp sgt i64 %704, %709
  br i1 %710, label %711, label %714

711:
  %712 = getelementptr inbounds nuw float, ptr %706, i64 %709
  %713 = load float, ptr %712, align 4
  br label %714

714:
  %715 = phi float [ %713, %711 ], [ 0.000000e+00, %708 ]
  %716 = getelementptr inbounds nuw float, ptr %6, i64 %709
  store float %715, ptr %716, align 4
  %717 = add nuw nsw i64 %709, 1
  %718 = icmp eq i64 %717, 16
  br i1 %718, label %719, label %708

719:
  %720 = load <16 x float>, ptr %6, align 4
  call void @llvm.lifetime.end.p0(ptr nonnull %6)
  br label %723

721:
  %722 = load <16 x float>, ptr %706, align 4
  br label %723

723:
  %724 = phi <16 x float> [ %720, %719 ], [ %722, %721 ]
  %725 = fcmp olt <16 x float> %724, %702
  %726 = select <16 x i1> %725, <16 x float> %724, <16 x float> %702
  %727 = add nuw nsw i64 %703, 16
  %728 = icmp slt i64 %727, %687
  br i1 %728, label %701, label %695

729:
  %730 = phi i32 [ 0, %695 ], [ %737, %729 ]
  %731 = phi double [ 0.000000e+00, %695 ], [ %736, %729 ]
  %732 = extractelement <16 x float> %700, i32 %730
  %733 = fneg float %732
  %734 = fpext float %733 to double
  %735 = fcmp olt double %731, %734
  %736 = select i1 %735, double %734, double %731
  %737 = add nuw nsw i32 %730, 1
  %738 = icmp eq i32 %737, 16
  br i1 %738, label %739, label %729

739:
  %740 = fcmp olt double %736, 3.200000e+01
  %741 = select i1 %740, double %736, double 3.200000e+01
  %742 = fcmp ogt double %741, 1.000000e-30
  %743 = select i1 %742, double %741, double 1.000000e-30
  %744 = fdiv double -1.024000e+03, %743
  %745 = fptrunc double %744 to float
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(8192) %331, i8 0, i64 8192, i1 false)
  br i1 %696, label %755, label %746

746:
  br label %747

747:
  %748 = phi i64 [ %753, %747 ], [ 0, %746 ]
  %749 = phi double [ %752, %747 ], [ 0.000000e+00, %746 ]
  %750 = getelementptr inbounds nuw double, ptr %331, i64 %748
  %751 = load <2 x double>, ptr %750, align 8
  %752 = call double @llvm.vector.reduce.fadd.v2f64(double %749, <2 x double> %751)
  %753 = add nuw i64 %748, 2
  %754 = icmp eq i64 %753, 1024
  br i1 %754, label %772, label %747

755:
  %756 = phi i64 [ %770, %755 ], [ 0, %739 ]
  %757 = getelementptr inbounds nuw float, ptr %333, i64 %756
  %758 = load float, ptr %757, align 4
  %759 = fpext float %758 to double
  %760 = getelementptr inbounds nuw float, ptr %190, i64 %756
  %761 = load float, ptr %760, align 4
  %762 = fmul float %761, %745
  %763 = fcmp olt float %762, 1.023000e+03
  %764 = select i1 %763, float %762, float 1.023000e+03
  %765 = fptosi float %764 to i32
  %766 = sext i32 %765 to i64
  %767 = getelementptr inbounds double, ptr %331, i64 %766
  %768 = load double, ptr %767, align 8
  %769 = fadd double %768, %759
  store double %769, ptr %767, align 8
  %770 = add nuw nsw i64 %756, 1
  %771 = icmp eq i64 %770, %698
  br i1 %771, label %746, label %755

772:
  %773 = fmul double %699, %752
  br label %774

774:
  %775 = phi i64 [ 0, %772 ], [ %782, %781 ]
  %776 = phi double [ 0.000000e+00, %772 ], [ %779, %781 ]
  %777 = getelementptr inbounds nuw double, ptr %331, i64 %775
  %778 = load double, ptr %777, align 8
  %779 = fadd double %776, %778
  %780 = fcmp olt double %779, %773
  br i1 %780, label %781, label %784

781:
  %782 = add nuw nsw i64 %775, 1
  %783 = icmp eq i64 %782, 1023
  br i1 %783, label %786, label %774

784:
  %785 = trunc nuw nsw i64 %775 to i32
  br label %786

786:
  %787 = phi double [ %776, %784 ], [ %779, %781 ]
  %788 = phi i32 [ %785, %784 ], [ 1023, %781 ]
  br i1 %696, label %789, label %998

789:
  %790 = phi i64 [ %814, %813 ], [ 0, %786 ]
  %791 = phi i64 [ %815, %813 ], [ 0, %786 ]
  %792 = getelementptr inbounds nuw float, ptr %190, i64 %791
  %793 = load float, ptr %792, align 4
  %794 = fmul float %793, %745
  %795 = fcmp olt float %794, 1.023000e+03
  %796 = select i1 %795, float %794, float 1.023000e+03
  %797 = fptosi float %796 to i32
  %798 = icmp eq i32 %788, %797
  br i1 %798, label %799, label %813

799:
  %800 = add nsw i64 %790, 1
  %801 = getelementptr inbounds %struct.Entry, ptr %332, i64 %790
  %802 = getelementptr inbounds nuw float, ptr %333, i64 %791
  %803 = load float, ptr %802, align 4
  br i1 %697, label %807, label %804

804:
  %805 = getelementptr inbounds nuw i32, ptr %334, i64 %791
  %806 = load i32, ptr %805, align 4
  br label %809

807:
  %808 = trunc i64 %791 to i32
  br label %809

809:
  %810 = phi i32 [ %806, %804 ], [ %808, %807 ]
  store float %793, ptr %801, align 4
  %811 = getelementptr inbounds nuw i8, ptr %801, i64 4
  store float %803, ptr %811, align 4
  %812 = getelementptr inbounds nuw i8, ptr %801, i64 8
  store i32 %810, ptr %812, align 4
  br label %813

813:
  %814 = phi i64 [ %800, %809 ], [ %790, %789 ]
  %815 = add nuw nsw i64 %791, 1
  %816 = icmp eq i64 %815, %698
  br i1 %816, label %817, label %789

817:
  %818 = icmp sgt i64 %814, 1
  br i1 %818, label %819, label %893

819:
  %820 = lshr i64 %814, 1
  br label %823

821:
  %822 = getelementptr inbounds nuw i8, ptr %330, i64 16392
  br label %884

823:
  %824 = phi i64 [ %825, %879 ], [ %820, %819 ]
  %825 = add nsw i64 %824, -1
  %826 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %825
  %827 = load i64, ptr %826, align 4
  %828 = getelementptr inbounds nuw i8, ptr %826, i64 8
  %829 = load i32, ptr %828, align 4
  %830 = shl nuw nsw i64 %825, 1
  %831 = or disjoint i64 %830, 1
  %832 = icmp slt i64 %831, %814
  br i1 %832, label %833, label %879

833:
  %834 = trunc i64 %827 to i32
  %835 = bitcast i32 %834 to float
  br label %836

836:
  %837 = phi i64 [ %831, %833 ], [ %877, %874 ]
  %838 = phi i64 [ %830, %833 ], [ %876, %874 ]
  %839 = phi i64 [ %825, %833 ], [ %862, %874 ]
  %840 = add nuw nsw i64 %838, 2
  %841 = icmp slt i64 %840, %814
  br i1 %841, label %842, label %861

842:
  %843 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %837
  %844 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %840
  %845 = load i64, ptr %843, align 4
  %846 = getelementptr inbounds nuw i8, ptr %843, i64 8
  %847 = load i32, ptr %846, align 4
  %848 = load i64, ptr %844, align 4
  %849 = getelementptr inbounds nuw i8, ptr %844, i64 8
  %850 = load i32, ptr %849, align 4
  %851 = trunc i64 %845 to i32
  %852 = bitcast i32 %851 to float
  %853 = trunc i64 %848 to i32
  %854 = bitcast i32 %853 to float
  %855 = fcmp ule float %852, %854
  %856 = fcmp une float %852, %854
  %857 = icmp sge i32 %847, %850
  %858 = select i1 %856, i1 true, i1 %857
  %859 = select i1 %855, i1 %858, i1 false
  %860 = select i1 %859, i64 %837, i64 %840
  br label %861

861:
  %862 = phi i64 [ %837, %836 ], [ %860, %842 ]
  %863 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %862
  %864 = load i64, ptr %863, align 4
  %865 = getelementptr inbounds nuw i8, ptr %863, i64 8
  %866 = load i32, ptr %865, align 4
  %867 = trunc i64 %864 to i32
  %868 = bitcast i32 %867 to float
  %869 = fcmp ule float %835, %868
  %870 = fcmp une float %835, %868
  %871 = icmp sge i32 %829, %866
  %872 = select i1 %870, i1 true, i1 %871
  %873 = select i1 %869, i1 %872, i1 false
  br i1 %873, label %879, label %874

874:
  %875 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %839
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %875, ptr noundef nonnull align 4 dereferenceable(12) %863, i64 12, i1 false)
  %876 = shl nuw nsw i64 %862, 1
  %877 = or disjoint i64 %876, 1
  %878 = icmp slt i64 %877, %814
  br i1 %878, label %836, label %879

879:
  %880 = phi i64 [ %825, %823 ], [ %862, %874 ], [ %839, %861 ]
  %881 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %880
  store i64 %827, ptr %881, align 4
  %882 = getelementptr inbounds nuw i8, ptr %881, i64 8
  store i32 %829, ptr %882, align 4
  %883 = icmp sgt i64 %824, 1
  br i1 %883, label %823, label %821

884:
  %885 = phi i64 [ %814, %821 ], [ %886, %940 ]
  %886 = add nsw i64 %885, -1
  call void @llvm.lifetime.start.p0(ptr nonnull %3)
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %3, ptr noundef nonnull align 4 dereferenceable(12) %332, i64 12, i1 false)
  %887 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %886
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %332, ptr noundef nonnull align 4 dereferenceable(12) %887, i64 12, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %887, ptr noundef nonnull align 4 dereferenceable(12) %3, i64 12, i1 false)
  %888 = load i64, ptr %332, align 4
  %889 = load i32, ptr %822, align 4
  %890 = icmp sgt i64 %885, 2
  br i1 %890, label %894, label %891

891:
  %892 = getelementptr inbounds nuw i8, ptr %330, i64 16392
  store i32 %889, ptr %892, align 4
  call void @llvm.lifetime.end.p0(ptr nonnull %3)
  br label %893

893:
  br label %946

894:
  %895 = trunc i64 %888 to i32
  %896 = bitcast i32 %895 to float
  br label %897

897:
  %898 = phi i64 [ 1, %894 ], [ %938, %935 ]
  %899 = phi i64 [ 0, %894 ], [ %937, %935 ]
  %900 = phi i64 [ 0, %894 ], [ %923, %935 ]
  %901 = add nuw nsw i64 %899, 2
  %902 = icmp slt i64 %901, %886
  br i1 %902, label %903, label %922

903:
  %904 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %898
  %905 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %901
  %906 = load i64, ptr %904, align 4
  %907 = getelementptr inbounds nuw i8, ptr %904, i64 8
  %908 = load i32, ptr %907, align 4
  %909 = load i64, ptr %905, align 4
  %910 = getelementptr inbounds nuw i8, ptr %905, i64 8
  %911 = load i32, ptr %910, align 4
  %912 = trunc i64 %906 to i32
  %913 = bitcast i32 %912 to float
  %914 = trunc i64 %909 to i32
  %915 = bitcast i32 %914 to float
  %916 = fcmp ule float %913, %915
  %917 = fcmp une float %913, %915
  %918 = icmp sge i32 %908, %911
  %919 = select i1 %917, i1 true, i1 %918
  %920 = select i1 %916, i1 %919, i1 false
  %921 = select i1 %920, i64 %898, i64 %901
  br label %922

922:
  %923 = phi i64 [ %898, %897 ], [ %921, %903 ]
  %924 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %923
  %925 = load i64, ptr %924, align 4
  %926 = getelementptr inbounds nuw i8, ptr %924, i64 8
  %927 = load i32, ptr %926, align 4
  %928 = trunc i64 %925 to i32
  %929 = bitcast i32 %928 to float
  %930 = fcmp ule float %896, %929
  %931 = fcmp une float %896, %929
  %932 = icmp sge i32 %889, %927
  %933 = select i1 %931, i1 true, i1 %932
  %934 = select i1 %930, i1 %933, i1 false
  br i1 %934, label %940, label %935

935:
  %936 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %900
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(12) %936, ptr noundef nonnull align 4 dereferenceable(12) %924, i64 12, i1 false)
  %937 = shl nuw nsw i64 %923, 1
  %938 = or disjoint i64 %937, 1
  %939 = icmp slt i64 %938, %886
  br i1 %939, label %897, label %940

940:
  %941 = phi i64 [ %923, %935 ], [ %900, %922 ]
  %942 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %941
  store i64 %888, ptr %942, align 4
  %943 = getelementptr inbounds nuw i8, ptr %942, i64 8
  store i32 %889, ptr %943, align 4
  call void @llvm.lifetime.end.p0(ptr nonnull %3)
  br label %884

944:
  %945 = icmp sgt i64 %814, 0
  br i1 %945, label %974, label %994

946:
  %947 = phi i64 [ %972, %970 ], [ 0, %893 ]
  %948 = phi i64 [ %971, %970 ], [ 0, %893 ]
  %949 = getelementptr inbounds nuw float, ptr %190, i64 %947
  %950 = load float, ptr %949, align 4
  %951 = fmul float %950, %745
  %952 = fcmp olt float %951, 1.023000e+03
  %953 = select i1 %952, float %951, float 1.023000e+03
  %954 = fptosi float %953 to i32
  %955 = icmp sgt i32 %788, %954
  br i1 %955, label %956, label %970

956:
  br i1 %697, label %960, label %957

957:
  %958 = getelementptr inbounds nuw i32, ptr %334, i64 %947
  %959 = load i32, ptr %958, align 4
  br label %962

960:
  %961 = trunc i64 %947 to i32
  br label %962

962:
  %963 = phi i32 [ %959, %957 ], [ %961, %960 ]
  %964 = getelementptr inbounds i32, ptr %334, i64 %948
  store i32 %963, ptr %964, align 4
  %965 = getelementptr inbounds float, ptr %190, i64 %948
  store float %950, ptr %965, align 4
  %966 = getelementptr inbounds nuw float, ptr %333, i64 %947
  %967 = load float, ptr %966, align 4
  %968 = add nsw i64 %948, 1
  %969 = getelementptr inbounds float, ptr %333, i64 %948
  store float %967, ptr %969, align 4
  br label %970

970:
  %971 = phi i64 [ %968, %962 ], [ %948, %946 ]
  %972 = add nuw nsw i64 %947, 1
  %973 = icmp eq i64 %972, %698
  br i1 %973, label %944, label %946

974:
  %975 = phi i64 [ %992, %986 ], [ 0, %944 ]
  %976 = phi double [ %982, %986 ], [ 0.000000e+00, %944 ]
  %977 = phi i64 [ %990, %986 ], [ %971, %944 ]
  %978 = getelementptr inbounds nuw %struct.Entry, ptr %332, i64 %975
  %979 = getelementptr inbounds nuw i8, ptr %978, i64 4
  %980 = load float, ptr %979, align 4
  %981 = fpext float %980 to double
  %982 = fadd double %976, %981
  %983 = fadd double %787, %982
  %984 = fsub double %983, %981
  %985 = fcmp ult double %984, %773
  br i1 %985, label %986, label %994

986:
  %987 = getelementptr inbounds nuw i8, ptr %978, i64 8
  %988 = load i32, ptr %987, align 4
  %989 = getelementptr inbounds i32, ptr %334, i64 %977
  store i32 %988, ptr %989, align 4
  %990 = add nsw i64 %977, 1
  %991 = getelementptr inbounds float, ptr %333, i64 %977
  store float %980, ptr %991, align 4
  %992 = add nuw nsw i64 %975, 1
  %993 = icmp eq i64 %992, %814
  br i1 %993, label %994, label %974

994:
  %995 = phi i32 [ %686, %684 ], [ 1, %944 ], [ 1, %974 ], [ 1, %986 ]
  %996 = phi i64 [ %687, %684 ], [ %971, %944 ], [ %990, %986 ], [ %977, %974 ]
  %997 = icmp sgt i64 %996, 0
  br i1 %997, label %1004, label %998

998:
  %999 = phi i1 [ false, %994 ], [ false, %786 ], [ false, %690 ], [ true, %1040 ]
  %1000 = phi i64 [ %996, %994 ], [ 0, %786 ], [ 0, %690 ], [ %996, %1040 ]
  %1001 = phi i32 [ %995, %994 ], [ 1, %786 ], [ 1, %690 ], [ %995, %1040 ]
  %1002 = phi double [ 0.000000e+00, %994 ], [ 0.000000e+00, %786 ], [ 0.000000e+00, %690 ], [ %1042, %1040 ]
  %1003 = fmul double %293, %1002
  br label %1046

1004:
  %1005 = phi i64 [ %1045, %1040 ], [ %996, %994 ]
  %1006 = phi double [ %1042, %1040 ], [ 0.000000e+00, %994 ]
  %1007 = phi i64 [ %1043, %1040 ], [ 0, %994 ]
  %1008 = call i64 @llvm.smax.i64(i64 %1005, i64 1)
  %1009 = call i64 @llvm.umin.i64(i64 %1008, i64 256)
  %1010 = getelementptr inbounds nuw float, ptr %333, i64 %1007
  %1011 = sub nsw i64 %996, %1007
  %1012 = icmp sgt i64 %1011, 255
  br i1 %1012, label %1015, label %1013

1013:
  %1014 = icmp sgt i64 %1011, 0
  br i1 %1014, label %1031, label %1040

1015:
  %1016 = phi i64 [ %1021, %1015 ], [ 0, %1004 ]
  %1017 = phi <16 x float> [ %1020, %1015 ], [ zeroinitializer, %1004 ]
  %1018 = getelementptr inbounds nuw float, ptr %1010, i64 %1016
  %1019 = load <16 x float>, ptr %1018, align 4
  %1020 = fadd <16 x float> %1017, %1019
  %1021 = add nuw nsw i64 %1016, 16
  %1022 = icmp samesign ult i64 %1016, 240
  br i1 %1022, label %1015, label %1023

1023:
  %1024 = phi i32 [ %1029, %1023 ], [ 0, %1015 ]
  %1025 = phi double [ %1028, %1023 ], [ 0.000000e+00, %1015 ]
  %1026 = extractelement <16 x float> %1020, i32 %1024
  %1027 = fpext float %1026 to double
  %1028 = fadd double %1025, %1027
  %1029 = add nuw nsw i32 %1024, 1
  %1030 = icmp eq i32 %1029, 16
  br i1 %1030, label %1040, label %1023

1031:
  %1032 = phi i64 [ %1038, %1031 ], [ 0, %1013 ]
  %1033 = phi double [ %1037, %1031 ], [ 0.000000e+00, %1013 ]
  %1034 = getelementptr inbounds nuw float, ptr %1010, i64 %1032
  %1035 = load float, ptr %1034, align 4
  %1036 = fpext float %1035 to double
  %1037 = fadd double %1033, %1036
  %1038 = add nuw nsw i64 %1032, 1
  %1039 = icmp eq i64 %1038, %1009
  br i1 %1039, label %1040, label %1031

1040:
  %1041 = phi double [ %1028, %1023 ], [ 0.000000e+00, %1013 ], [ %1037, %1031 ]
  %1042 = fadd double %1006, %1041
  %1043 = add nuw nsw i64 %1007, 256
  %1044 = icmp slt i64 %1043, %996
  %1045 = add i64 %1005, -256
  br i1 %1044, label %1004, label %998

1046:
  %1047 = phi double [ 0.000000e+00, %998 ], [ %1070, %1069 ]
  %1048 = phi i64 [ 0, %998 ], [ %1049, %1069 ]
  %1049 = add nuw nsw i64 %1048, 256
  %1050 = icmp slt i64 %1049, %1000
  br i1 %1050, label %1051, label %1072

1051:
  %1052 = getelementptr inbounds nuw float, ptr %333, i64 %1048
  br label %1053

1053:
  %1054 = phi i64 [ 0, %1051 ], [ %1059, %1053 ]
  %1055 = phi <16 x float> [ zeroinitializer, %1051 ], [ %1058, %1053 ]
  %1056 = getelementptr inbounds nuw float, ptr %1052, i64 %1054
  %1057 = load <16 x float>, ptr %1056, align 4
  %1058 = fadd <16 x float> %1055, %1057
  %1059 = add nuw nsw i64 %1054, 16
  %1060 = icmp samesign ult i64 %1054, 240
  br i1 %1060, label %1053, label %1061

1061:
  %1062 = phi i32 [ %1067, %1061 ], [ 0, %1053 ]
  %1063 = phi double [ %1066, %1061 ], [ 0.000000e+00, %1053 ]
  %1064 = extractelement <16 x float> %1058, i32 %1062
  %1065 = fpext float %1064 to double
  %1066 = fadd double %1063, %1065
  %1067 = add nuw nsw i32 %1062, 1
  %1068 = icmp eq i32 %1067, 16
  br i1 %1068, label %1069, label %1061

1069:
  %1070 = fadd double %1047, %1066
  %1071 = fcmp ogt double %1070, %1003
  br i1 %1071, label %1072, label %1046

1072:
  br i1 %999, label %1073, label %1093

1073:
  %1074 = phi i64 [ %1091, %1088 ], [ 0, %1072 ]
  %1075 = phi i64 [ %1090, %1088 ], [ 0, %1072 ]
  %1076 = phi double [ %1089, %1088 ], [ %1047, %1072 ]
  %1077 = icmp samesign ult i64 %1074, %1048
  %1078 = getelementptr inbounds nuw float, ptr %333, i64 %1074
  %1079 = load float, ptr %1078, align 4
  %1080 = fcmp ogt float %1079, 0.000000e+00
  br i1 %1077, label %1081, label %1083

1081:
  br i1 %1080, label %1082, label %1088

1082:
  br label %1088

1083:
  %1084 = select i1 %1080, i64 %1074, i64 %1075
  %1085 = fpext float %1079 to double
  %1086 = fadd double %1076, %1085
  %1087 = fcmp ogt double %1086, %1003
  br i1 %1087, label %1093, label %1088

1088:
  %1089 = phi double [ %1086, %1083 ], [ %1076, %1082 ], [ %1076, %1081 ]
  %1090 = phi i64 [ %1084, %1083 ], [ %1074, %1082 ], [ %1075, %1081 ]
  %1091 = add nuw nsw i64 %1074, 1
  %1092 = icmp eq i64 %1091, %1000
  br i1 %1092, label %1093, label %1073

1093:
  %1094 = phi i64 [ 0, %1072 ], [ %1090, %1088 ], [ %1084, %1083 ]
  %1095 = icmp eq i32 %1001, 0
  br i1 %1095, label %1100, label %1096

1096:
  %1097 = getelementptr inbounds i32, ptr %334, i64 %1094
  %1098 = load i32, ptr %1097, align 4
  %1099 = sext i32 %1098 to i64
  br label %1100

1100:
  %1101 = phi i64 [ %1099, %1096 ], [ %1094, %1093 ], [ %284, %283 ], [ %260, %281 ], [ 0, %297 ], [ %138, %288 ], [ %324, %323 ], [ %314, %320 ]
  %1102 = getelementptr inbounds nuw i8, ptr %130, i64 %187
  %1103 = load i8, ptr %1102, align 1
  %1104 = icmp eq i8 %1103, 0
  br i1 %1104, label %1108, label %1105

1105:
  %1106 = getelementptr inbounds nuw i64, ptr %124, i64 %187
  %1107 = load i64, ptr %1106, align 8
  br label %1108

1108:
  %1109 = phi i64 [ %1107, %1105 ], [ %1101, %1100 ]
  %1110 = load i64, ptr %52, align 8
  %1111 = icmp sgt i64 %1110, 0
  br i1 %1111, label %1113, label %1112

1112:
  br i1 %136, label %1129, label %1126

1113:
  %1114 = phi i8 [ %1122, %1113 ], [ %1103, %1108 ]
  %1115 = phi i64 [ %1123, %1113 ], [ 0, %1108 ]
  %1116 = load i64, ptr %53, align 8
  %1117 = inttoptr i64 %1116 to ptr
  %1118 = getelementptr inbounds nuw i64, ptr %1117, i64 %1115
  %1119 = load i64, ptr %1118, align 8
  %1120 = icmp eq i64 %1119, %1109
  %1121 = zext i1 %1120 to i8
  %1122 = or i8 %1114, %1121
  store i8 %1122, ptr %1102, align 1
  %1123 = add nuw nsw i64 %1115, 1
  %1124 = load i64, ptr %52, align 8
  %1125 = icmp slt i64 %1123, %1124
  br i1 %1125, label %1113, label %1112

1126:
  %1127 = getelementptr i8, ptr %128, i64 %189
  %1128 = getelementptr i8, ptr %1127, i64 %1109
  store i8 1, ptr %1128, align 1
  br label %1129

1129:
  %1130 = getelementptr inbounds nuw i64, ptr %120, i64 %187
  store i64 %1109, ptr %1130, align 8
  %1131 = getelementptr inbounds nuw i64, ptr %124, i64 %187
  store i64 %1109, ptr %1131, align 8
  %1132 = add nuw nsw i64 %187, 1
  %1133 = load i64, ptr %32, align 8
  %1134 = icmp slt i64 %1132, %1133
  br i1 %1134, label %186, label %1138

1135:
  %1136 = load i64, ptr %27, align 8
  %1137 = add nsw i64 %1136, 1
  store i64 %1137, ptr %27, align 8
  br label %1171

1138:
  %1139 = load i64, ptr %46, align 8
  %1140 = inttoptr i64 %1139 to ptr
  %1141 = load i64, ptr %27, align 8
  %1142 = add nsw i64 %1141, 1
  store i64 %1142, ptr %27, align 8
  %1143 = icmp sgt i64 %1133, 0
  br i1 %1143, label %1147, label %1171

1144:
  %1145 = add nuw nsw i64 %1148, 1
  %1146 = icmp eq i64 %1145, %1133
  br i1 %1146, label %1171, label %1147

1147:
  %1148 = phi i64 [ %1145, %1144 ], [ 0, %1138 ]
  %1149 = getelementptr inbounds nuw i8, ptr %1140, i64 %1148
  %1150 = load i8, ptr %1149, align 1
  %1151 = icmp eq i8 %1150, 0
  br i1 %1151, label %1152, label %1144

1152:
  %1153 = load i64, ptr %54, align 8
  %1154 = icmp eq i64 %1153, 0
  br i1 %1154, label %1167, label %1155

1155:
  call void @llvm.lifetime.start.p0(ptr nonnull %14)
  %1156 = call i32 @clock_gettime(i32 noundef 1, ptr noundef nonnull %14)
  %1157 = load i64, ptr %14, align 8
  %1158 = load i64, ptr %55, align 8
  call void @llvm.lifetime.end.p0(ptr nonnull %14)
  %1159 = sub i64 %1157, %23
  %1160 = mul i64 %1159, 1000000000
  %1161 = sub i64 %1158, %25
  %1162 = add i64 %1161, %1160
  %1163 = load i64, ptr %54, align 8
  %1164 = icmp sgt i64 %1162, %1163
  br i1 %1164, label %1171, label %1165

1165:
  %1166 = load i64, ptr %27, align 8
  br label %1167

1167:
  %1168 = phi i64 [ %1166, %1165 ], [ %1142, %1152 ]
  %1169 = load i64, ptr %28, align 8
  %1170 = icmp slt i64 %1168, %1169
  br i1 %1170, label %56, label %1171

1171:
  %1172 = phi i64 [ 0, %2 ], [ -1, %117 ], [ 0, %1135 ], [ 0, %1144 ], [ 0, %1138 ], [ 0, %1155 ], [ 1, %134 ], [ 0, %1167 ]
  ret i64 %1172
}

declare void @llvm.lifetime.start.p0(ptr captures(none))

declare void @llvm.lifetime.end.p0(ptr captures(none))

declare i32 @clock_gettime(i32 noundef, ptr noundef) local_unnamed_addr

declare void @llvm.memset.p0.i64(ptr writeonly captures(none), i8, i64, i1 immarg)

declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly captures(none), ptr noalias readonly captures(none), i64, i1 immarg)

declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)

declare float @llvm.fabs.f32(float)

declare i64 @llvm.umin.i64(i64, i64)

declare i64 @llvm.smax.i64(i64, i64)

declare double @llvm.vector.reduce.fadd.v2f64(double, <2 x double>)
